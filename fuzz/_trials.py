"""The loop of every attack: trials that follow from a seed, for a while."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

MOST_FINDINGS = 10
"""More of them say no more, and hide each other."""

Trial = Callable[[Random], Iterable[str]]
"""Takes all its chances from a generator; returns what it found, as sentences."""


def repeat(trial: Trial, seed: int, seconds: float) -> tuple[int, list[str]]:
    """Make trials, one at least, until the time is over or enough was found.

    What a trial raises is a finding, too.

    Returns:
        How many there were, and what was found, with the number of the trial: ``Random(number)``
        makes it again.
    """
    chance, trials = Random(seed), 0
    findings: list[str] = []
    end = time.monotonic() + seconds
    while not trials or (time.monotonic() < end and len(findings) < MOST_FINDINGS):
        number = chance.randrange(2**32)
        trials += 1
        try:
            found = list(trial(Random(number)))
        except Exception as error:  # that is what is looked for
            found = [f"{type(error).__name__}: {str(error)[:200]}"]
        findings += [f"trial {number}: {entry}" for entry in found]
    return trials, findings


@contextmanager
def new_folder() -> Iterator[Path]:
    """Make an empty folder that is removed when the block ends."""
    place = Path(tempfile.mkdtemp(prefix="rote-fuzz-"))
    try:
        yield place
    finally:
        shutil.rmtree(place)
