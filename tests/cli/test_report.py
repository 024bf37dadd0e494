"""`rote report` as people call it."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rote.cli.main import app
from rote.errors import InputError
from tests.reporting.stores import write_store

ROTE = Path(sys.executable).parent / "rote"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_store(tmp_path_factory.mktemp("runs"), metrics=["train_accuracy"])


def test_a_page_and_figures_are_written_and_named(store: Path, tmp_path: Path) -> None:
    page, figures = tmp_path / "my page.html", tmp_path / "figures"
    command = [ROTE, "report", store, "-o", page, "--figures", figures]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"Report: {page}" in done.stdout
    assert f"Figure: {figures / 'regions.svg'}" in done.stdout
    assert "No figure of filter: Expected `runs` to have checkpoints with" in done.stderr
    text = page.read_text(encoding="utf-8")
    assert f"rote report {store} -o &#39;{page}&#39; --figures" in text  # how it was made
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figures", "my page.html"]


def test_rule_column_and_names_of_metrics_are_passed_on(store: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    arguments = ["report", str(store), "--out", str(page), "--rule", "filter"]
    arguments += ["--column", "susceptibility_relative", "--map", "test_accuracy=train_accuracy"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    text = page.read_text(encoding="utf-8")
    assert "rule filter" in text
    assert "ζ (susceptibility_relative)" in text
    assert "Mean test" in text
    assert f"rote select {store} --rule filter --column susceptibility_relative --map" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "{folder}"], "to be a file to write, got a directory. Name a file in it."),
        (["-o", "{folder}/file/page.html"], "which is no folder that can be written to"),
        (["--rule", "stagd"], "Did you mean 'staged'"),
        (["--column", "zeta"], "Expected `column` to be one of susceptibility"),
    ],
)
def test_mistakes_are_named_and_leave_nothing_behind(
    store: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "file").touch()
    out = ["-o", str(tmp_path / "page.html")] if "-o" not in arguments else []
    given = [word.format(folder=tmp_path) for word in arguments]
    with pytest.raises(InputError, match=message):
        CliRunner().invoke(app, ["report", str(store), *out, *given], catch_exceptions=False)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_mistake_is_one_line_and_no_traceback(tmp_path: Path) -> None:
    done = subprocess.run(
        [ROTE, "report", tmp_path / "nowhere"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("Error: Expected `runs` to be a directory with runs")
    assert "Traceback" not in done.stderr
