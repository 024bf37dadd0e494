"""The `rote` command with files and options that somebody has tampered with.

Whatever they are, a command ends in time with 0, 1 or 2, without a traceback and without a draft.
"""

import io
import os
import resource
import shutil
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from types import FrameType
from unittest.mock import patch

import numpy as np

from fuzz._trials import new_folder, repeat
from fuzz.specs import scrambled
from rote.cli.main import main
from rote.workloads import RunSpec, train
from rote.workloads.architectures import registry
from rote.workloads.workload import Workload

_LIMIT = 30.0  # seconds, on a machine that does other things as well
_SPEC = """epochs = 2
batch = 16
name = "a"
[data]
name = "digits"
train_size = 40
test_size = 10
[architecture]
name = "mlp"
[architecture.options]
width = 4
depth = 1
[probe]
holdout_size = 10
batch = 8
"""
_SWEEP = f"""name = "{{architecture.name}}-{{seed}}"
[base]
{_SPEC.replace("[", "[base.").replace('name = "a"', "")}
[grid]
seed = [0, 1]
[sample]
count = 2
draw = {{ optimizer.lr = {{ log_uniform = [0.01, 0.1] }} }}
"""
_CSV = "run,step,susceptibility,train_accuracy\na,1,0.1,0.5\na,2,0.2,0.9\nb,1,0.3,0.7\n"
_WORDS = ["", "-", "nan", "-1", "0", "9" * 400, "1e400", "a:b", "os:system", "max:", "ζ", "\x1b[2J"]
_WORDS += ["/dev/zero", "pipe", "store", "file.csv", "csv:file.csv", "~nobody/x", "x" * 5000, "{}"]
_VALUES = ["nan", "-inf", "9" * 400, "1e308", "-1", "0", "10000000", "1e9", "true", "'x'", "''"]
_VALUES += ['"\\u0000"', '"../x"', "[]", "[1, 'a']", "{}", "{ a = 1 }", "1979-05-27", "'os:system'"]
_VALUES += ["{ name = 'npz', path = 'pipe' }", "'cnn'", "'resnet18'", "[" * 50 + "]" * 50]
_VALUES += ['"\\e[2J"']
_OPTIONS = {
    "select": ["--rule", "--column", "--map", "--clean-labels", "--noise-rate", "--where"],
    "suspects": ["--csv"],
    "report": ["--rule", "--out", "--figures", "--chart", "--clean-labels"],
    "doctor": ["--model", "--optimizer", "--shape", "--classes"],
    "sweep": ["--out", "--list", "--workers", "--cpus-per-run"],
    "probe": ["--model", "--data", "--classes", "--lr", "--samples", "--seed", "--key"],
    "train": ["--out", "--data-dir", "--allow-import", "--data", "--label", "--truth"],
    "data": [],
}


class Enough(BaseException):
    """A training that goes on is no finding; nobody has time for it here."""


class Late(BaseException):
    """A command that hangs is one."""


def attack(seed: int, seconds: float) -> tuple[int, list[str]]:
    """Call commands until the time is over; tell what went wrong."""
    with new_folder() as place, chdir(place), _tame():
        _prepare()
        return repeat(_trial, seed, seconds)


def _trial(chance: Random) -> list[str]:
    arguments = chance.choice(_ATTACKS)(chance)
    room = chance.randrange(20_000) if chance.random() < 0.15 else None
    with _room_for(room):
        found = _trouble(arguments)
    shown = " ".join(ascii(word[:60]) for word in arguments)
    full = "" if room is None else f", with room for {room} bytes in a file"
    return [] if found is None else [f"rote {shown}{full}: {found}"]


def _prepare() -> None:
    """Write what the commands find: a store with two runs, one of them truncated, and a pipe."""
    Path("spec.toml").write_text(_SPEC)
    spec = RunSpec.from_toml("spec.toml")
    train(replace(spec, name="b", seed=1, signals=("aum", "confident_learning")), "whole/one")
    with suppress(Enough):
        train(RunSpec.from_toml("spec.toml"), "whole/two", progress=_stop)
    os.mkfifo("pipe")
    np.savez("whole.npz", x_train=np.zeros((4, 8, 8), np.uint8), y_train=np.arange(4))


def _stop(_reading: object) -> None:
    raise Enough


def _training(chance: Random) -> list[str]:
    Path("mutated.toml").write_bytes(_tamper(_SPEC, chance))
    shutil.rmtree("run", ignore_errors=True)
    return ["train", "mutated.toml", "--out", "run", "--quiet"]


def _tamper(text: str, chance: Random) -> bytes:
    """Return a spec with one value of another kind, or with wrong bytes."""
    if chance.random() < 0.4:
        return scrambled(text.encode(), chance)
    lines = text.splitlines()
    at = chance.choice([at for at, line in enumerate(lines) if " = " in line])
    lines[at] = f"{lines[at].partition(' = ')[0]} = {chance.choice(_VALUES)}"
    return "\n".join(lines).encode()


def _sweeping(chance: Random) -> list[str]:
    Path("mutated.toml").write_bytes(_tamper(_SWEEP, chance))
    return ["sweep", "mutated.toml", "--out", "planned", "--dry-run"]


def _resuming(chance: Random) -> list[str]:
    _tampered_store(chance, "two", ("workload.json", "resume.pt", "spec.toml", "labels.npz"))
    return ["train", "spec.toml", "--out", "store/two", "--quiet"]


def _reading(chance: Random) -> list[str]:
    _tampered_store(chance, "one", ("run.json", "workload.json", "journal.jsonl"))
    return chance.choice((["select", "store"], ["sweep", "--list", "store"]))


def _judging(chance: Random) -> list[str]:
    """Choose what a verdict is built on, and what is made of it."""
    beside = ("neighbor_votes.npy", "labels.npz", "predictions.bin", "aum.bin", "run.json")
    _tampered_store(chance, "one", beside)
    rules = ("auto", "posterior", "consensus", "noisy-validation", "staged")
    select = ["select", "store/one", "--rule", chance.choice(rules)]
    return chance.choice(
        (
            [*select, "--clean-labels", _labels(chance), "--suspects", "suspects.csv"],
            [*select, "--copy-to", "kept", "--json"],
            ["suspects", "store", "--csv", "suspects.csv"],
            ["report", "store", "--out", "page.html"],
        )
    )


def _labels(chance: Random) -> str:
    name = chance.choice(("labels.txt", "labels.npy"))
    np.save("whole.npy", np.arange(10))
    content = Path("whole.npy").read_bytes() if name.endswith("npy") else b"0 1 2 3 4, 5; 6 7 8 9"
    Path(name).write_bytes(scrambled(content, chance))
    return name


def _table(chance: Random) -> list[str]:
    Path("file.csv").write_bytes(scrambled(_CSV.encode(), chance))
    return ["select", "csv:file.csv", "--rule", chance.choice(("staged", "last", "pareto"))]


def _rows(chance: Random) -> list[str]:
    Path("rows.csv").write_bytes(scrambled(_CSV.encode(), chance))
    return ["data", "check", "rows.csv", "--label", chance.choice(("run", "step", "label"))]


def _arrays(chance: Random) -> list[str]:
    Path("file.npz").write_bytes(scrambled(Path("whole.npz").read_bytes(), chance))
    return ["data", "check", "file.npz"]


def _options(chance: Random) -> list[str]:
    command = chance.choice(list(_OPTIONS))
    arguments = [command]
    for option in _OPTIONS[command]:
        if chance.random() < 0.6:
            arguments += [option, chance.choice(_WORDS)]
    return arguments + [chance.choice([*_WORDS, "spec.toml", "whole"])] * chance.randrange(2)


_ATTACKS: list[Callable[[Random], list[str]]] = [
    *(_training, _sweeping, _resuming, _reading, _judging, _table, _rows, _arrays, _options)
]


def _tampered_store(chance: Random, run: str, files: tuple[str, ...]) -> None:
    shutil.rmtree("store", ignore_errors=True)
    shutil.copytree("whole", "store")
    file = Path("store", run, chance.choice(files))
    if chance.random() < 0.05:
        file.unlink()
        os.mkfifo(file)
    else:
        file.write_bytes(scrambled(file.read_bytes(), chance))


def _trouble(arguments: list[str]) -> str | None:
    """Return what is wrong with how a command ended, if anything is."""
    code, error = _call(arguments)
    drafts = [str(file) for file in Path().rglob("*.draft")]
    for draft in drafts:
        Path(draft).unlink()
    if isinstance(code, BaseException):
        return f"{type(code).__name__}: {str(code)[:200]}"
    if code not in (0, 1, 2, None):
        return f"exit code {code}"
    if "Traceback" in error:
        return f"a traceback: {error.strip().splitlines()[-1][:200]}"
    return f"half-written: {', '.join(drafts)}" if drafts and code is not None else None


def _call(arguments: list[str]) -> tuple[object, str]:
    """How the command ended: its exit code, None if it was ended from here, or what it raised."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with (
            patch.object(sys, "argv", ["rote", *arguments]),
            redirect_stdout(out),
            redirect_stderr(err),
            _alarm(),
        ):
            main()
    except SystemExit as ended:
        return ended.code or 0, err.getvalue()
    except Enough:
        return None, err.getvalue()
    except BaseException as error:  # that is what is looked for
        if isinstance(error, KeyboardInterrupt):
            raise
        return error, err.getvalue()
    return 0, err.getvalue()


@contextmanager
def _room_for(size: int | None) -> Iterator[None]:
    """No file grows beyond a size, as on a full disk; None is as usual."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most if size is None else size, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


@contextmanager
def _alarm() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(_number: int, _frame: FrameType | None) -> None:
        raise Late(f"not over after {_LIMIT:.0f} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, _LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _tame() -> Iterator[None]:
    """No training is long, no network large, and what main() changes is put back."""
    usual, hook = Workload.train_epoch, sys.excepthook
    form, path = warnings.formatwarning, list(sys.path)

    def short(self: Workload, epoch: int, *rest: object) -> dict[str, float]:
        if epoch > 3:
            raise Enough
        return usual(self, epoch, *rest)  # type: ignore[arg-type]

    with (
        patch.object(Workload, "train_epoch", short),
        patch.object(registry, "MOST_WEIGHTS", 10**6),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            sys.excepthook, warnings.formatwarning, sys.path[:] = hook, form, path
