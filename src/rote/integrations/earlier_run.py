"""The run that a callback may find where it would write: whether, and how, to go on with it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rote.errors import RunExistsError
from rote.store import SaveTo, targets_of


def holds_a_run(save_to: SaveTo) -> bool:
    """Whether there is something to go on with; a logger finds the run by its name.

    Args:
        save_to: where the run is recorded.
    """
    targets = targets_of(save_to)
    paths = [target for target in targets if isinstance(target, Path)]
    return bool(targets) and all((path / "run.json").is_file() for path in paths)


@contextmanager
def resumed_by(option: str) -> Iterator[None]:
    """Say how a trainer resumes, where ``rote.track`` would say ``resume=True``.

    Args:
        option: the trainer's own.

    Yields:
        Nothing.

    Raises:
        RunExistsError: if ``save_to`` is in use.
    """
    try:
        yield
    except RunExistsError as error:
        way = f"resume from a checkpoint (`{option}`)"
        raise RunExistsError(str(error).replace("pass resume=True", way)) from error
