"""W&B, which can be written: a run of its own in a project, or the run that the caller has open."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from rote.errors import InputError, RoteError, RunExistsError
from rote.extras import require
from rote.store.journal import READING_COLUMNS, SCHEMA_VERSION, numbers_of
from rote.store.logger import Logger
from rote.store.sinks import Opened

if TYPE_CHECKING:
    from rote.records import Reading
    from rote.store.logger import Address

CONFIG_KEY = "rote"
STEP = "rote/step"
FLAGS = "rote/flags"
NOTE = "rote/note"
SCHEMA = "rote/schema"
RESUMED_AFTER = "rote/resumed_after"


class WandbSink:
    """Logs readings as rows of one W&B run.

    Args:
        run: the run.
        is_own: whether the run is rote's, to be finished with it.
    """

    def __init__(self, run: Any, *, is_own: bool) -> None:  # noqa: ANN401
        self._run = run
        self._is_own = is_own
        run.define_metric(STEP, hidden=True)
        for name in READING_COLUMNS:
            if name not in ("step", "flags"):
                run.define_metric(name, step_metric=STEP)

    def append(self, reading: Reading, row: int) -> None:  # noqa: ARG002
        """Log one reading."""
        own = {STEP: reading.step, FLAGS: list(reading.flags)}
        own |= {NOTE: reading.note} if reading.note else {}
        self._log({**numbers_of(reading), **own})

    def resume_after(self, step: int) -> None:
        """Log that readings after ``step`` do not count."""
        self._log({RESUMED_AFTER: step})

    def close(self) -> None:
        """Finish the run, if it is rote's."""
        if self._is_own:
            self._run.finish()

    def _log(self, values: Mapping[str, Any]) -> None:
        # Without a step of W&B's: the caller's own calls count that one.
        self._run.log({SCHEMA: SCHEMA_VERSION, **values})


def open_wandb(address: Address, description: Mapping[str, Any], *, resume: bool) -> Opened:
    """Start a run in a project, or write to the one that is open.

    Args:
        address: without a project, ``wandb.run`` is meant.
        description: what is run; without a name, W&B gives one.
        resume: resume the open run; what it holds cannot be read back.

    Raises:
        InputError: if W&B refuses, no run is open, or a project is to be resumed.
        RunExistsError: if the open run has a tracker's readings already.
    """
    wandb = require("wandb", extra="wandb")
    if address.place and resume:
        raise InputError(
            f"Expected `save_to` to be 'wandb:' to resume a run of W&B, got {str(address)!r}. Open "
            "the run with wandb.init(id=..., resume='must') first."
        )
    try:
        run = _new_run(wandb, address, description) if address.place else wandb.run
    except RoteError:
        raise
    except Exception as error:
        raise InputError(f"Expected {address} to be open to W&B, got: {error}") from error
    if run is None:
        raise InputError(
            "Expected `save_to` to be wandb:PROJECT, or wandb: after wandb.init(), got 'wandb:' "
            "and no open run."
        )
    place = f"W&B run {run.name or run.id}"
    if not resume and CONFIG_KEY in run.config:
        raise RunExistsError(
            f"The open {place} already holds a tracker's readings. Open another run.", place
        )
    sink = WandbSink(run, is_own=bool(address.place))
    if resume:
        return Opened(sink, place, held=None)
    named = {**description, "name": description.get("name") or run.name or run.id}
    run.config.update({CONFIG_KEY: named})
    undo = partial(run.finish, exit_code=1) if address.place else None
    return Opened(sink, place, undo=undo)


def _new_run(wandb: Any, address: Address, description: Mapping[str, Any]) -> Any:  # noqa: ANN401
    # A run that the caller has open, or opens later, stays what `wandb.run` is.
    return wandb.init(project=address.place, name=description.get("name"), reinit="create_new")


LOGGER = Logger(open=open_wandb)
