"""A logger of one's own is one file, and works wherever one of rote's does."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

from rote.cli.main import app
from rote.errors import InputError, LoggerWarning
from rote.store import open_sinks, parse_targets, read_table
from tests.loggers import log, readings

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "loggers.md"
_, CODE = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The logger of the page, in a package of its own."""
    name = f"loggers_of_{tmp_path.name}"
    (tmp_path / "modules" / name).mkdir(parents=True)
    (tmp_path / "modules" / name / "lines.py").write_text(CODE)
    (tmp_path / "modules" / f"{name}_2.py").write_text(
        f"from {name}.lines import Lines\nfrom rote.store import Logger\n"
        "Deaf = Logger(read=Lines.read)\nMute = Logger(open=Lines.open)\nnone = 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path / "modules")
    return name


def test_the_run_is_written_resumed_and_read(tmp_path: Path, module: str) -> None:
    target = f"{module}.lines:Lines:{tmp_path}/run.jsonl"
    found = readings(1)
    log(target, found[:5], name="run")
    log(tmp_path / "own" / "run", found[:4], name="run")
    sinks = open_sinks(parse_targets(target), {"name": "run"}, resume=True)
    assert [reading.step for reading in sinks.earlier] == [1, 2, 3, 4, 5]
    sinks.resume_from(found[:3])
    sinks.append(found[3], 3)
    sinks.close()
    own = read_table(tmp_path / "own")
    assert_frame_equal(read_table(target).frame, own.frame, check_exact=True)


def test_from_the_command_line(tmp_path: Path, module: str) -> None:
    model = torch.nn.Linear(4, 3)
    for epoch in range(1, 4):
        torch.nn.init.normal_(model.weight)
        torch.save(model.state_dict(), tmp_path / f"epoch-{epoch}.pt")
    np.save(tmp_path / "holdout.npy", np.ones((8, 4), dtype=np.float32))
    (tmp_path / "modules" / "network.py").write_text(
        "import torch\ndef build(**shape): return torch.nn.Linear(4, 3)\n"
    )

    target = f"{module}.lines:Lines:{tmp_path}/run.jsonl"
    files = [str(tmp_path / f"epoch-{epoch}.pt") for epoch in range(1, 4)]
    data = ("--data", str(tmp_path / "holdout.npy"), "--classes", "3")
    probed = ["probe", *files, "--model", "network:build", *data, "--out", target, "--quiet"]
    shown = CliRunner().invoke(app, probed, catch_exceptions=False).stdout
    assert f"rote select {target}" in shown.replace("\n", "")
    path = os.pathsep.join([str(tmp_path / "modules"), os.environ.get("PYTHONPATH", "")])
    selected = subprocess.run(
        [sys.executable, "-m", "rote", "select", target, "--rule", "last", "--json"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    found = json.loads(selected.stdout)
    assert (found["pick"]["run"], found["pick"]["step"]) == ("run", 3)


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (".lines:Absent:x", r"has no 'Absent' \(`{}`\)"),
        (".absent:Lines:x", r"Cannot import .* \(`{}`\): ModuleNotFoundError"),
        ("_2:none:x", "Expected `{}` to name a rote.store.Logger, got 3 at"),
    ],
)
def test_non_loggers_are_refused(module: str, end: str, message: str) -> None:
    for use, argument in ((parse_targets, "save_to"), (read_table, "runs")):
        with pytest.raises(InputError, match=message.format(argument)):
            use(module + end)  # type: ignore[operator]


def test_a_logger_that_only_reads_or_writes_is_reported(module: str) -> None:
    with pytest.raises(InputError, match=r"Deaf:x'\. It can only be read\."):
        parse_targets(f"{module}_2:Deaf:x")
    with pytest.raises(InputError, match=r"Mute:x'\. It can only be written: .*_2:Mute:…"):
        read_table(f"{module}_2:Mute:x")


def test_unknown_module_is_not_an_address(tmp_path: Path, module: str) -> None:
    assert parse_targets("resnet_18:seed:3") == (Path("resnet_18:seed:3"),)
    assert parse_targets(f"./{module}_2:Mute:x") == (Path(f"./{module}_2:Mute:x"),)
    with pytest.raises(InputError, match="start with one of .* got 'nowhere:seed:3'"):
        parse_targets("nowhere:seed:3")


def test_its_failure_does_not_stop_the_training(
    tmp_path: Path, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: Any = __import__(f"{module}.lines", fromlist=["lines"])
    target = f"{module}.lines:Lines:{tmp_path}/run.jsonl"
    sinks = open_sinks(parse_targets(target), {}, resume=False)
    with monkeypatch.context() as patch:
        patch.delattr(lines.LineFile, "write")
        with pytest.warns(LoggerWarning, match=r"file .*run.jsonl did not take a reading"):
            sinks.append(readings(0)[0], 0)
    sinks.append(readings(0)[1], 1)
    sinks.close()
    assert read_table(target).frame["step"].to_list() == [1, 2]
