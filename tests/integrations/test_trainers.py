"""Trainers are found by their files: a new one needs no list."""

from pathlib import Path

import pytest

from rote import integrations
from rote.errors import InputError


def test_every_file_with_a_callback_is_a_trainer() -> None:
    own = ["fastai", "huggingface", "ignite", "keras", "lightning", "skorch"]
    assert integrations.list_trainers()[: len(own)] == own


def test_a_new_file_is_a_trainer_and_shared_code_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "small.py").write_text(
        "import small\n\n\nclass SusceptibilityCallback(Base):\n    x = 1\n"
    )
    (tmp_path / "shared.py").write_text('"""What SusceptibilityCallback needs."""\n')
    monkeypatch.setattr(integrations, "__file__", str(tmp_path / "__init__.py"))
    assert integrations._list_own.__wrapped__() == ("small",)


def test_an_unknown_trainer_is_refused_with_the_likely_name() -> None:
    with pytest.raises(InputError, match="skorch"):
        integrations.find_callback("skorsh")
