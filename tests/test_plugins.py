"""Extensions of an installed package: each is found by its name, and a broken one does no harm."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import ZipFile

import pytest

from tests.reporting.stores import write_store

pytestmark = pytest.mark.slow
pytest.importorskip("ensurepip", reason="makes an environment with pip")

DOCS = Path(__file__).parents[1] / "docs"
Run: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL)


SIGNAL, RULE, _ = blocks("extending.md", "python")
(PROJECT,) = blocks("extending.md", "toml")
LOGGER = next(code for code in blocks("loggers.md", "python") if "LineFile" in code)
LOGGER_NAME = re.search(r"^(\w+) = store\.Logger", LOGGER, re.MULTILINE)[1]
REST = """
from dataclasses import dataclass
import rote
from rote.integrations.adapter import TrainerAdapter

class Dots:
    name, title = "dots", "Some dots"

    def record(self, contents):
        return tuple(contents.candidates.step.tolist())

    def draw(self, record, frame):
        import altair as alt
        values = [{"x": step} for step in record]
        chart = alt.Chart(alt.InlineData(values=values), width=frame.width)
        return chart.mark_point().encode(x="x:Q")

@dataclass(kw_only=True, eq=False, repr=False)
class Small(TrainerAdapter):
    pass

class Level(rote.Signal):
    name = "level"
    columns = (rote.Column("level", "a number", "signal", "share"),)

    def __init__(self, height=1):
        self.height = height

    def read(self, epoch):
        return {"level": self.height}

class Auto:
    "Replace the rule of rote."
    name, needs, compares_runs = "auto", (), False

    def judge(self, candidates):
        raise RuntimeError

class Idle:
    name, needs, compares_runs, judge = "idle", (), False, 3

class Letters(Auto):
    name, needs = "letters", "confidence"

class Needy(Level):
    name = "needy"

    def __init__(self, height):
        self.height = height

def hello(name: str = "you") -> None:
    "Greet somebody."
    print(f"hello {name}")
"""
ENTRIES = f"""
auto = "rest:Auto"
bad = "missing_module:Bad"
empty = "rest:hello"
idle = "rest:Idle"
letters = "rest:Letters"
other = "rest:Auto"

[project.entry-points."rote.loggers"]
lines = "my_logger:{LOGGER_NAME}"
notes = "missing_module:Bad"

[project.entry-points."rote.charts"]
dots = "rest:Dots"
regions = "rest:Dots"

[project.entry-points."rote.trainers"]
small = "rest:Small"

[project.entry-points."rote.commands"]
hello = "rest:hello"
broken = "missing_module:main"
select = "rest:hello"
"""


RIVAL = """
project = { name = "rote-rival", version = "1", entry-points."rote.charts".dots = "rest:Nothing" }
"""


def make_wheel(folder: Path, modules: dict[str, str], project: dict[str, Any]) -> Path:
    """Pack modules with the metadata of a pyproject.toml, as a build backend would."""
    given, version = project["project"]["name"], project["project"]["version"]
    name = given.replace("-", "_")
    groups = project["project"]["entry-points"].items()
    points = "\n".join(
        "\n".join([f"[{group}]", *(f"{key} = {value}" for key, value in entries.items())])
        for group, entries in groups
    )
    info = f"{name}-{version}.dist-info"
    files = {f"{module}.py": code for module, code in modules.items()} | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {given}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": points,
    }
    record = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        for path, text in (files | {f"{info}/RECORD": record}).items():
            archive.writestr(path, text)
    return wheel


def install(wheels: list[Path], venv: Path) -> Path:
    """Install wheels, offline, into a new environment of its own; return where packages are.

    The interpreter is the one below any environment, and ``-I`` ignores its variables: pip moves
    whatever lies where sysconfig says packages are, and an environment that borrows the packages of
    another may say that of the other's.
    """
    subprocess.run([sys._base_executable, "-I", "-m", "venv", str(venv)], check=True)
    python = venv / ("Scripts" if os.name == "nt" else "bin") / "python"
    where = [str(python), "-I", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(subprocess.run(where, capture_output=True, text=True, check=True).stdout.strip())
    assert site.resolve().is_relative_to(venv.resolve())  # before pip writes anything
    pip = [str(python), "-I", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    pip += ["--ignore-installed", "--disable-pip-version-check", *map(str, wheels)]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return site


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run Python where the package of docs/extending.md is installed, with one of each kind."""
    folder = tmp_path_factory.mktemp("package")
    modules = {"my_signal": SIGNAL, "my_rule": RULE, "my_logger": LOGGER, "rest": REST}
    project = tomllib.loads(PROJECT + ENTRIES)
    project["project"]["entry-points"]["rote.signals"]["level"] = "rest:Level"
    project["project"]["entry-points"]["rote.signals"]["needy"] = "rest:Needy"
    rival = tomllib.loads(RIVAL)
    wheels = [make_wheel(folder, modules, project), make_wheel(folder, {}, rival)]
    site = install(wheels, folder / "venv")
    write_store(folder / "runs")

    def start(*words: str) -> subprocess.CompletedProcess[str]:
        paths = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
        return subprocess.run(
            [sys.executable, *words],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            env=os.environ | {"PYTHONPATH": paths, "COLUMNS": "200"},
        )

    return start


def test_a_rule_appears_in_help_and_selects(run: Run) -> None:
    listed = run("-m", "rote", "select", "--rule", "help")
    assert listed.returncode == 0, listed.stderr
    names = [line.split()[0] for line in listed.stdout.splitlines()]
    assert "sure" in names
    assert names.count("auto") == 1
    assert not {"bad", "empty", "idle", "letters", "other"} & set(names)
    assert "Replace the rule" not in listed.stdout
    warned = listed.stderr.splitlines()
    assert len(warned) == 6
    assert all(line.startswith("Warning: Rule `") for line in warned)
    assert all("of package `rote-confidence`" in line for line in warned)
    faults = (
        *(
            "`auto`",
            "No module named 'missing_module'",
            "no `name`",
            "its `judge` cannot be called",
        ),
        *("its `needs` is a string: write ('confidence',)", "its `name` is 'auto'"),
    )
    for line, fault in zip(warned, faults, strict=True):
        assert fault in line
    asked = run("-m", "rote", "select", "runs", "--rule", "sure")
    assert asked.returncode == 2
    assert "confidence" in asked.stderr  # found, and these runs did not record what it needs


def test_broken_rule_fails_only_when_selected(run: Run) -> None:
    asked = run("-m", "rote", "select", "runs", "--rule", "bad")
    assert asked.returncode == 2
    assert "Rule `bad` of package `rote-confidence` cannot be used" in asked.stderr
    assert "Traceback" not in asked.stderr
    usual = run("-m", "rote", "select", "runs", "--rule", "last", "--json")
    assert usual.returncode == 0
    assert usual.stderr == ""


def test_import_and_builtin_names_read_no_entry_points(run: Run) -> None:
    code = """
import sys, rote
assert "rote.plugins" not in sys.modules
rote.select("runs", "last")
from rote.plugins import _read_entry_points
assert _read_entry_points.cache_info().currsize == 0
"""
    done = run("-W", "error::UserWarning", "-c", code)
    assert done.returncode == 0, done.stderr


def test_a_signal_and_a_logger_record_and_are_read(run: Run) -> None:
    code = """
import torch, rote
from rote.tracking import list_signals

assert "confidence" in list_signals()
torch.manual_seed(0)
x, y = torch.randn(64, 8), torch.randint(3, (64,))
model = torch.nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
tracker = rote.track(model, optimizer, inputs=x, num_classes=3,
                     signals=["confidence", "level(height=3)"],
                     save_to=["lines:readings.txt", "runs-of-signal/a"])
for epoch in range(3):
    logits = model(x)
    optimizer.zero_grad(); torch.nn.functional.cross_entropy(logits, y).backward(); optimizer.step()
    tracker.observe(labels=y, logits=logits.detach())
    tracker.probe(train_accuracy=0.5)
try:
    rote.track(model, optimizer, inputs=x, num_classes=3, signals=["needy"])
except rote.InputError as error:
    assert "Signal `needy` cannot be made: " in str(error), error
print(tracker.readings[-1].level)
print(rote.select("runs-of-signal", "sure").pick.step)
print(rote.select("lines:readings.txt", "last").pick.step)
"""
    done = run("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["3.0", "1", "3"]  # a linear network is as sure at the first step
    refused = run("-m", "rote", "select", "line:readings.txt")
    assert refused.returncode == 2
    assert "Logger `notes` of package `rote-confidence` cannot be used" in refused.stderr
    assert "Did you mean 'lines'?" in refused.stderr


def test_a_spec_names_a_signal_without_allowing_imports(run: Run, tmp_path: Path) -> None:
    spec = tmp_path / "spec.toml"
    lines = 'epochs = 2\nsignals = ["confidence"]\n'
    spec.write_text(f'{lines}data = {{ name = "digits", train_size = 60, test_size = 20 }}\n')
    done = run("-m", "rote", "train", str(spec), "--out", str(tmp_path / "a"), "--quiet")
    assert done.returncode == 0, done.stderr
    journal = (tmp_path / "a" / "journal.jsonl").read_text().splitlines()
    assert all("confidence" in json.loads(line) for line in journal)


def test_a_chart_is_added_by_its_name(run: Run, tmp_path: Path) -> None:
    listed = run("-m", "rote", "report", "runs", "--chart", "help")
    assert listed.stdout.split() == ["dots", "Some", "dots"]
    assert "Chart `regions` of package `rote-confidence` is ignored" in listed.stderr
    rival = "Chart `dots` of package `rote-rival` is ignored: `rote-confidence` has the same name."
    assert rival in listed.stderr
    page = tmp_path / "page.html"
    done = run("-m", "rote", "report", "runs", "--chart", "dots", "-o", str(page))
    assert done.returncode == 0, done.stderr
    assert "Some dots" in page.read_text(encoding="utf-8")
    wrong = run("-m", "rote", "report", "runs", "--chart", "dot")
    assert wrong.returncode == 2
    assert "Did you mean 'dots'?" in wrong.stderr


def test_a_callback_is_found_by_the_name_of_its_trainer(run: Run) -> None:
    code = """
from rote.integrations import find_callback, list_trainers
print(list_trainers()[-1], find_callback("small").__name__)
"""
    assert run("-c", code).stdout.split() == ["small", "Small"]


def test_a_command_appears_in_help_and_runs(run: Run) -> None:
    helped = run("-m", "rote", "--help")
    assert helped.returncode == 0, helped.stderr
    assert "Greet somebody." in helped.stdout
    assert "broken" not in helped.stdout
    assert "Command `broken` of package `rote-confidence` cannot be used" in helped.stderr
    assert "Command `select` of package `rote-confidence` is ignored" in helped.stderr
    assert len(helped.stderr.splitlines()) == 2
    assert run("-m", "rote", "hello", "--name", "Ada").stdout == "hello Ada\n"
    assert "Greet somebody." in run("-m", "rote", "hello", "-h").stdout
    asked = run("-m", "rote", "broken")
    assert asked.returncode == 2
    assert "No module named 'missing_module'" in asked.stderr
    assert "Traceback" not in asked.stderr
