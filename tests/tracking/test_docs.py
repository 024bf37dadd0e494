"""The Python of docs/signals.md runs as it stands there."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "signals.md"


@pytest.mark.filterwarnings("ignore::rote.errors.DominatedMeanWarning")
def test_the_page_on_signals_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    wave, logit = map(float, capsys.readouterr().out.split())
    assert 0 <= wave <= 1
    assert logit > 0
