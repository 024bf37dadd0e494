"""The notebook runs from its first cell to its last, and its cells show something."""

import ast
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

NOTEBOOK = Path(__file__).parents[2] / "examples" / "arrays_to_verdict.ipynb"
CELLS = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
CODE = [cell for cell in CELLS if cell["cell_type"] == "code"]


def run(source: str, names: dict[str, Any]) -> Any:
    """What a notebook would show below the cell: the value of its last line, if it has one."""
    lines = ast.parse(source)
    last = lines.body.pop() if isinstance(lines.body[-1], ast.Expr) else None
    exec(compile(lines, str(NOTEBOOK), "exec"), names)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)


def test_notebook_has_ten_cells_and_no_output() -> None:
    assert len(CODE) == 10
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in CODE)


def test_notebook_runs_from_arrays_to_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    names: dict[str, Any] = {}
    shown = [run("".join(cell["source"]), names) for cell in CODE]
    verdict, tracking, regions = shown[6:9]
    assert Path(verdict.pick.file).is_file()
    test = verdict.table["test_accuracy"]
    assert verdict.pick.test_accuracy > test.median()
    assert "<table" in verdict._repr_html_()
    assert len(tracking.to_dict()["vconcat"]) >= 2
    assert regions.to_dict()["$schema"].startswith("https://vega")
    said = capsys.readouterr().out
    assert "45% of them wrong" in said
    assert (names["store"] / "report.html").is_file()
    share = int(said.split(" suspects, ")[1].split("%")[0])
    assert share >= 80
