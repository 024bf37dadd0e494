"""The Python in docs/huggingface.md and docs/loops.md runs as it stands there."""

import re
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("huggingface")]

pytest.importorskip("transformers", reason="needs rote[huggingface]")
state = pytest.importorskip("accelerate.state", reason="needs rote[huggingface]")

DOCS = Path(__file__).parents[2] / "docs"


def run(page: str) -> None:
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), flags=re.DOTALL):
        exec(compile(block, page, "exec"), names)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    state.AcceleratorState._reset_state(reset_partial_state=True)


def test_the_page_on_hugging_face(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("huggingface.md")
    assert (tmp_path / "runs" / "huggingface" / "journal.jsonl").is_file()
    printed = capsys.readouterr().out
    assert re.search(r"^\[('-?\d\.\d{5}'(, )?){3}\]$", printed, flags=re.MULTILINE)
    assert re.search(r" \d out-stop/checkpoint-\d+$", printed, flags=re.MULTILINE)


def test_the_page_on_loops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("loops.md")
    assert len(re.findall(r"ζ = \d\.\d{4}", capsys.readouterr().out)) == 3
    assert (tmp_path / "checkpoint").is_dir()
