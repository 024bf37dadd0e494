"""The Python in docs/lightning.md runs as it stands there."""

import re
from pathlib import Path

import pytest

pytest.importorskip("lightning", reason="needs the extra `lightning`")

from tests.integrations.lightning_runs import QUIET

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("lightning"),
    *[pytest.mark.filterwarnings(entry) for entry in QUIET],
]

PAGE = Path(__file__).parents[2] / "docs" / "lightning.md"


def test_the_python_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    assert (tmp_path / "runs" / "lightning" / "journal.jsonl").is_file()
    printed = capsys.readouterr().out
    assert re.search(r"^\[('-?\d\.\d{4}'(, )?){3}\]$", printed, flags=re.M)
    assert re.search(
        r"^ζ has been above .* keep step (\d+)\. \1 runs/keep\.ckpt$", printed, flags=re.M
    )
