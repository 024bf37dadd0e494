"""Checksums in ``run.json`` of labels and votes, so that it is noticed when they were changed."""

from collections.abc import Mapping
from typing import Any
from zlib import crc32

_KEY = "checksums"


def checksums_of(contents: Mapping[str, bytes]) -> dict[str, dict[str, str]]:
    """What a description has to say of some contents, by their names.

    Example:
        >>> checksums_of({"given_labels": b"0 3 1"})
        {'checksums': {'given_labels': '25469ff4'}}
    """
    return {_KEY: {name: _checksum(content) for name, content in contents.items()}}


def is_as_written(description: Mapping[str, Any], name: str, content: bytes | None) -> bool:
    """Whether a content, None if it is gone, is what a description says, if it says anything."""
    known = description.get(_KEY)
    said = known.get(name) if isinstance(known, Mapping) else None
    return said is None or (content is not None and said == _checksum(content))


def _checksum(content: bytes) -> str:
    return f"{crc32(content):08x}"
