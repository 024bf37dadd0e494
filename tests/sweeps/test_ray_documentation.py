"""What docs/cluster.md says about files and options is so."""

import re
from pathlib import Path

import pytest
from typer.main import get_command

from rote.cli.main import app
from rote.sweeps import SearchSpace

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cluster.md").read_text()


def test_the_paper_s_sweeps_have_as_many_runs_as_the_page_says() -> None:
    rows = re.findall(r"^\| `(\w+\.toml)` \| (\d+) \| (\d+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 3
    for name, runs, epochs in rows:
        specs = list(SearchSpace.from_toml(ROOT / "examples" / "sweeps" / name))
        assert len({spec.identity for spec in specs}) == int(runs)
        assert {spec.epochs for spec in specs} == {int(epochs)}


def test_every_command_of_the_page_has_its_options() -> None:
    commands = re.findall(r"rote sweep (?:\\\n|[^`\n#])+", PAGE)
    assert len(commands) >= 5
    known = {
        option
        for parameter in get_command(app).commands["sweep"].params
        for option in parameter.opts
    }
    used = {option for command in commands for option in re.findall(r"--[\w-]+", command)}
    assert {"--executor", "--address", "--gpus-per-run", "--dry-run"} <= used <= known


def test_every_file_of_the_page_is_there() -> None:
    named = re.findall(r"(?:examples|tests)/[\w/]+\.(?:toml|py)", PAGE)
    assert len(named) >= 5
    assert all((ROOT / name).is_file() for name in named)
