"""The tutorials: committed with their output, without errors, and their code still runs."""

import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("tutorials")]

FOLDER = Path(__file__).parents[2] / "docs" / "tutorials"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
NAMES = [path.stem for path in NOTEBOOKS]
LARGEST = 300_000


def code_cells(path: Path) -> list[Any]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def test_there_is_one_for_each_kind_of_data() -> None:
    assert NAMES == ["images", "reward_model", "table", "text"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_notebook_is_small_with_output_and_no_error(path: Path) -> None:
    assert path.stat().st_size < LARGEST
    cells = code_cells(path)
    counts = [cell["execution_count"] for cell in cells]
    assert counts == list(range(1, len(cells) + 1))  # run once, from the first to the last
    outputs = [one for cell in cells for one in cell["outputs"]]
    assert len(outputs) >= 3
    for one in outputs:
        assert one["output_type"] != "error"
        assert re.search(r"Traceback|\bError:", json.dumps(one)) is None
        assert "<script" not in json.dumps(one)  # nothing that loads from the net
        assert "/work/" not in json.dumps(one)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_the_page_is_generated_from_the_file(path: Path, tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="needs the group `dev`")
    assert nbformat.read(path, as_version=4).cells
    shutil.copy(path, tmp_path)
    runpy.run_path(str(FOLDER / "run.py"))["write_page"](tmp_path / path.name)
    page = path.with_suffix(".md").name
    assert (tmp_path / page).read_text("utf-8") == (FOLDER / page).read_text("utf-8")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_the_text_cites_what_the_cells_have_printed(path: Path) -> None:
    """After `make notebooks` on another processor, the sentences need another look."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    printed = json.dumps([cell["outputs"] for cell in code_cells(path)], ensure_ascii=False)
    shares = set(re.findall(r"\d+\.\d(?= %)", text))
    steps = set(re.findall(r"Keep step \d+", text))
    assert shares
    assert {share for share in shares if f"{share}%" not in printed} == set()
    assert {step for step in steps if f"{step} of" not in printed} == set()


@pytest.mark.parametrize(
    "path",
    [  # README's verdict comes from the first; `make test-all` runs all of them
        pytest.param(path, id=path.stem, marks=() if path.stem == "images" else pytest.mark.full)
        for path in NOTEBOOKS
    ],
)
def test_the_code_of_the_page_still_runs(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("nbclient", reason="needs the group `dev`")
    pytest.importorskip("ipykernel", reason="needs the group `dev`")
    copy = Path(shutil.copy(path, tmp_path))
    words = [sys.executable, str(FOLDER / "run.py"), str(copy)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]  # it stops at the first error
    assert all(cell["execution_count"] for cell in code_cells(copy))
