"""The Python in docs/support-a-trainer.md runs as it stands there."""

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "support-a-trainer.md"


def test_the_example_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    callback = names["callback"]
    assert callback.verdict.headline in capsys.readouterr().out
    assert len(callback.readings) == 3
    assert callback.readings[0].validation_accuracy is not None
    assert (tmp_path / "runs" / "small" / "neighbor_votes.npy").is_file()


def test_the_page_names_every_method_that_a_subclass_may_override() -> None:
    from rote.integrations.adapter import TrainerAdapter

    text = PAGE.read_text()
    public = [
        name
        for name, value in vars(TrainerAdapter).items()
        if callable(value) and not name.startswith("_")
    ]
    assert len(public) > 15
    missing = [name for name in public if name not in text]
    assert missing == ["draw", "choose_samples"]  # which no trainer has overridden yet
