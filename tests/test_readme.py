"""The README's Python runs as it stands there."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_the_readme_keeps_its_promises() -> None:
    lines = README.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120
    assert next(i for i, line in enumerate(lines, 1) if line.startswith("```python")) <= 35
    assert {"make demo", "make test"} <= {line.split("  ")[0].strip() for line in lines}


def test_the_python_in_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in BLOCKS:
        exec(compile(block, str(README), "exec"), names)
    assert capsys.readouterr().out.count("ζ = ") == 3
    assert (tmp_path / "runs" / "first" / "journal.jsonl").is_file()
