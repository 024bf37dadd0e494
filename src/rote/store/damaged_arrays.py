"""What reading a damaged ``.npy`` or ``.npz`` file raises: NumPy parses headers as Python."""

import tokenize
import zipfile
import zlib

DAMAGED_ARRAYS = (
    *(OSError, EOFError, ValueError, TypeError, LookupError, OverflowError, MemoryError),
    *(SyntaxError, RuntimeError),
    *(tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)
"""Also what taking an array out of it, and making it one of integers, does."""
