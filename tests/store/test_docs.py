"""The page about loggers does what it says."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "loggers.md"


def test_the_code_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tensorboard", reason="needs rote[tensorboard]")
    code, _ = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, str(PAGE), "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert (tmp_path / "runs" / "first" / "journal.jsonl").is_file()
    assert list((tmp_path / "logs" / "first").glob("*tfevents*.rote"))


def test_every_kind_of_address_is_on_the_page() -> None:
    from rote.store.logger import list_kinds

    page = PAGE.read_text()
    for kind in list_kinds():
        assert f"`{kind}:" in page
