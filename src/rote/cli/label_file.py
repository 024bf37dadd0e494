"""Labels in a file: an array of integers, or text."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from rote.errors import InputError, shown

if TYPE_CHECKING:
    import numpy as np


def read_labels(path: Path, option: str) -> "np.ndarray":
    """Integers from ``.npy``, or from text with spaces, commas, semicolons or lines between them.

    Raises:
        InputError: if there is no such file, or anything else is in it.
    """
    import numpy as np

    from rote.store import DAMAGED_ARRAYS

    if not path.exists():
        raise InputError(
            f"Expected `{option}` to be an existing file, got {path}, which does not exist. Check "
            "the path."
        )
    if not path.is_file():
        raise InputError(
            f"Expected `{option}` to be a file of integers (.npy, or text), got "
            f"{shown(str(path))}, which is no file."
        )
    try:
        if path.suffix == ".npy":
            found = np.load(path, allow_pickle=False)
        else:
            words = re.split(r"[\s,;]+", path.read_text(encoding="utf-8").strip())
            found = np.array([int(word) for word in words], dtype=np.int64)
    except DAMAGED_ARRAYS as error:
        raise InputError(
            f"Expected `{option}` to be a file of integers (.npy, or text), got "
            f"{shown(str(path))}: {error}."
        ) from error
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise InputError(
            f"Expected `{option}` to hold one integer per sample of the pool, got {found.dtype} of "
            f"shape {found.shape} in {path}."
        )
    return np.asarray(found, dtype=np.int64)
