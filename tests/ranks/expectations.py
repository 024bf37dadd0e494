"""Errors that are expected on all ranks, or on one of them."""

import re
from contextlib import nullcontext
from typing import Any

import pytest
from torch import distributed


def on_rank(number: int) -> bool:
    return distributed.get_rank() == number


def raises(kind: type[BaseException], *words: str, on: int | None = None) -> Any:
    """Expect an error, on every rank or on one."""
    if on is not None and not on_rank(on):
        return nullcontext()
    return pytest.raises(kind, match="(?s)" + "".join(f"(?=.*{re.escape(w)})" for w in words))
