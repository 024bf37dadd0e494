"""The Python in docs/trainers.md runs as it stands there, for the packages that are installed."""

import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "trainers.md"


def test_the_python_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in ("ignite", "skorch", "keras"):
        pytest.importorskip(package, reason=f"needs rote[{package}]")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    printed = capsys.readouterr().out
    for package in ("ignite", "skorch", "keras"):
        assert re.search(rf"^{package} \[('-?\d\.\d{{4}}'(, )?){{3}}\]$", printed, flags=re.M)
    assert (tmp_path / "runs" / "ignite" / "journal.jsonl").is_file()
