"""What every command has in common: help, one style of error, Ctrl-C, folders that are made."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.cells import cell_len
from typer.testing import CliRunner

from rote.cli.command import Command, make_app
from rote.cli.main import app, main
from rote.cli.output import name_new_folders
from rote.cli.report import describe_progress
from rote.cli.sweep import SweepPage
from rote.reporting import LivePage
from rote.sweeps import Progress
from tests.reporting.stores import write_store
from tests.sweeps.sweeping import DEADLINE, lines, until

pytestmark = pytest.mark.slow

ROTE = Path(sys.executable).parent / "rote"
SPEC = """
epochs = 100000
data = { name = "digits", train_size = 60, test_size = 20 }
architecture = { name = "mlp", options = { width = 8 } }
probe = { holdout_size = 12, batch = 8 }
"""


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*path, name))


EVERY = list(commands(typer.main.get_command(app)))


def test_every_command_is_found() -> None:
    named = "demo train sweep select suspects report probe doctor data theory study"
    assert set(named.split()) <= {path[0] for path in EVERY if path}
    assert ("study", "run") in EVERY


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_h_shows_help_that_fits_80_columns_without_types_of_flags(path: tuple[str, ...]) -> None:
    said = CliRunner().invoke(app, [*path, "-h"], env={"COLUMNS": "80"})
    assert said.exit_code == 0, said.output
    assert f"Usage: rote {' '.join(path)}".strip() in said.output.replace("root", "rote")
    assert "bool" not in said.output.lower()
    assert "list[" not in said.output
    assert max(map(cell_len, said.output.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["select", "--bogus"], "Unknown option --bogus. See `rote select --help`."),
        (["select", "--rul", "x"], "Unknown option --rul. Did you mean --rule?"),
        (["nothing"], "Unknown command nothing. See `rote --help`."),
        (["trian"], "Unknown command trian. Did you mean train? See `rote --help`."),
        (["probe"], "Missing argument"),
        (["study", "run", "--workers", "x"], "Invalid value for"),
        (["select", "nowhere"], "Directory not found: nowhere"),
        (["train", "no.toml"], "File not found: no.toml. Check the path."),
        (["sweep", "no.toml", "--out", "x"], "File not found: no.toml."),
        (["sweep", "--list", "nowhere"], "Directory not found: nowhere"),
        (["theory", "bounds", "--data", "no.npz"], "`--data` names no file or folder"),
        (
            ["probe", "no.pt", "--model", "mlp", "--data", "no.npy", "--classes", "2"],
            "File or folder not found: no.pt",
        ),
        (
            ["select", ".", "--clean-labels", "no.npy"],
            "File not found: no.npy (`--clean-labels`)",
        ),
    ],
)
def test_a_mistake_is_one_line_of_one_style(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["rote", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    (line,) = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2
    assert line.startswith("Error: ")
    assert message in line
    assert not list(tmp_path.iterdir())


def test_ctrl_c_prints_a_message_in_every_command() -> None:
    own = make_app("own", "Of this test.")

    @own.command(cls=Command)
    def work() -> None:
        """Be interrupted, as torch is while it writes."""
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("unexpected pos 3776 vs 3670")

    @own.command(cls=Command)
    def fail() -> None:
        """Be wrong."""
        raise RuntimeError("a mistake of ours")

    said = CliRunner().invoke(own, ["work"])
    assert said.exit_code == 130
    assert (
        said.stderr
        == "Stopped. No file was left incomplete. Run the same command again to start over.\n"
    )
    with pytest.raises(RuntimeError, match="a mistake of ours"):
        CliRunner().invoke(own, ["fail"], catch_exceptions=False)


def interrupted(ready: Any, *arguments: object) -> tuple[str, str]:
    """What a command says when Ctrl-C comes as soon as something is there."""
    with subprocess.Popen(
        [ROTE, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        until(ready)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 130, err
    return out, err


def test_ctrl_c_in_train_says_what_is_kept(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SPEC)
    run = tmp_path / "run"
    _, err = interrupted(
        lambda: run.is_dir() and lines(run) > 2, "train", tmp_path / "spec.toml", "--out", run
    )
    last = err.splitlines()[-1]
    assert f"saved in {run}" in last
    assert "resume" in last


def test_ctrl_c_in_a_watch_keeps_the_page(tmp_path: Path) -> None:
    page = tmp_path / "new" / "page.html"
    store = write_store(tmp_path / "runs", runs=1, metrics=())
    (store / "0" / "workload.json").write_text("{}")  # a run of a spec that was cut off
    _, err = interrupted(page.exists, "report", store, "-o", page, "--watch")
    last = err.splitlines()[-1]
    assert "Stopped watching; the runs continue." in last
    assert str(page) in last
    text = page.read_text()
    assert "Best so far: step" in text
    assert "0 of 1 run finished, 1 not started or interrupted" in text
    assert "no longer updated" in text
    assert list(page.parent.iterdir()) == [page]


def test_watch_waits_for_missing_runs_without_an_error(tmp_path: Path) -> None:
    store, page = tmp_path / "runs", tmp_path / "page.html"
    found = LivePage(store, page).look()
    assert describe_progress(found, page, [str(store)]) == (
        f"No run has started yet; waiting for runs in {store}. Ctrl-C stops watching, not the runs."
    )
    write_store(store, runs=1, metrics=())
    found = LivePage(store, page).look()
    assert f"1 of 1 run finished; the page is {page}." in describe_progress(
        found, page, [str(store)]
    )


def test_a_created_folder_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with name_new_folders(tmp_path / "a" / "b", tmp_path, None, tmp_path / "never"):
        (tmp_path / "a" / "b").mkdir(parents=True)
    assert capsys.readouterr().err == f"Created folder {tmp_path / 'a'}\n"


def test_the_page_of_a_sweep_is_written_at_intervals(tmp_path: Path) -> None:
    now, told = [0.0], []
    store, path = tmp_path / "runs", tmp_path / "page.html"
    page = SweepPage(store, path, lambda *what: told.append(what), clock=lambda: now[0])
    progress = Progress(2, failed={"b": "it broke"}, paths={"b": store / "b"})
    page(progress, None)
    assert "1 failed, 1 not started or interrupted" in path.read_text()
    assert "No verdict yet" in path.read_text()
    write_store(store, runs=1, metrics=())
    page(progress, None)
    assert "No verdict yet" in path.read_text()  # too early
    now[0] = 1e6
    page(progress, None)
    assert "1 of 2 runs finished, 1 failed" in path.read_text()
    assert "Best so far" in path.read_text()
    assert told == [(progress, None)] * 3
    page.leave(progress)
    assert 'id="live"' not in path.read_text()


def test_the_page_of_a_sweep_that_has_not_started_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "page.html"
    page = SweepPage(tmp_path / "runs", path, lambda *_: None)
    page(Progress(2), None)
    page.leave(Progress(2))
    assert "No verdict yet" in path.read_text()
    assert capsys.readouterr().err == f"Report: {path}, without a verdict: no run has started.\n"


def test_a_shell_can_complete_commands() -> None:
    asked = {"_ROTE_COMPLETE": "complete_bash", "COMP_WORDS": "rote s", "COMP_CWORD": "1"}
    done = subprocess.run(
        [ROTE], capture_output=True, text=True, check=True, env={**os.environ, **asked}
    )
    assert done.stdout.split() == ["sweep", "select", "suspects", "study"]
