"""`rote report` as people call it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rote.cli.main import app
from rote.errors import InputError
from tests.reporting.stores import write_store

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("figures")]

ROTE = Path(sys.executable).parent / "rote"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_store(tmp_path_factory.mktemp("runs"), metrics=["train_accuracy"])


def test_a_page_and_figures_are_written_and_named(store: Path, tmp_path: Path) -> None:
    page, figures = tmp_path / "my page.html", tmp_path / "figures"
    command = [ROTE, "report", store, "--rule", "regions", "-o", page, "--figures", figures]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"Report: {page}" in done.stdout
    assert f"Figure: {figures / 'regions.svg'}" in done.stdout
    assert "No figure of filter: The runs have no checkpoints with" in done.stderr
    text = page.read_text(encoding="utf-8")
    assert (
        f"rote report {store} --rule regions -o &#39;{page}&#39; --figures" in text
    )  # how it was made
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figures", "my page.html"]


def test_ground_truth_metrics_are_omitted_without_clean_labels(store: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = CliRunner().invoke(app, ["report", str(store), "-o", str(page)])
    assert result.exit_code == 0, result.output
    text = page.read_text(encoding="utf-8")
    assert text.count("No test accuracy is recorded") == 1
    assert "<code>oracle</code>" not in text
    assert 'id="filter-title"' not in text
    assert "<p>ζ is 0.0" in text


def test_rule_column_and_names_of_metrics_are_passed_on(store: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    arguments = ["report", str(store), "--out", str(page), "--rule", "filter"]
    arguments += ["--column", "susceptibility_relative", "--map", "test_accuracy=train_accuracy"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    text = page.read_text(encoding="utf-8")
    assert "rule filter" in text
    assert "ζ relative to the loss" in text
    assert f"rote select {store} --rule filter --column susceptibility_relative --map" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "{folder}"], "it is a directory. Name a file in it."),
        (["-o", "{folder}/file/page.html"], "is not a writable folder"),
        (["--rule", "stagd"], "Did you mean 'staged'"),
        (["--column", "zeta"], "Expected `column` to be one of susceptibility"),
    ],
)
def test_mistakes_are_named_and_leave_no_files(
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
    assert done.stderr.startswith("Error: Directory not found: ")
    assert "Traceback" not in done.stderr


def test_groups_have_a_verdict_each_on_one_page_and_a_page_each(tmp_path: Path) -> None:
    names = ["a", "b", "<script>alert(1)</script>"]
    store = write_store(tmp_path / "runs", runs=3, names=names, with_specs=True)
    for at, data in enumerate(("digits", "digits", "<img src=x onerror=alert(2)>/..")):
        file = store / str(at) / "workload.json"
        told = json.loads(file.read_text())
        told["data"]["name"] = data
        file.write_text(json.dumps(told | {"spec": {}}))
    page = tmp_path / "pages" / "report.html"
    arguments = ["report", str(store), "-o", str(page), "--rule", "staged"]
    with pytest.raises(InputError, match="2 groups that differ in data"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert not page.exists()
    arguments += ["--group-by", "data.name"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    files = sorted(file.name for file in page.parent.iterdir())
    assert files == ["report-1-img-src=x-onerror=alert-2.html", "report-2-digits.html", page.name]
    text = page.read_text(encoding="utf-8")
    assert len(re.findall(r"<h2>(Keep|Tentative:) step \d+ of ", text)) == 2
    assert "<script" not in text
    assert "<img" not in text
    for name in files[:2]:
        assert f'href="{name}"' in text
        assert f"Page of one group: {page.parent / name}" in result.output
    digits = (page.parent / files[1]).read_text(encoding="utf-8")
    assert "2 runs · 24 checkpoints" in digits
    assert "--where data.name=digits" in digits
    arguments[-2:] = ["--where", "data.name=digits"]
    assert CliRunner().invoke(app, arguments, catch_exceptions=False).exit_code == 0
    assert "2 runs · 24 checkpoints" in page.read_text(encoding="utf-8")
