"""Collects the cases of the device only if named: importing them changes torch for good."""

from pathlib import Path

import pytest

CASES = "cases.py"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    is_named = any(Path(argument).name == CASES for argument in config.args)
    return True if collection_path.name == CASES and not is_named else None
