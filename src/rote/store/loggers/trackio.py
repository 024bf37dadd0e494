"""Trackio, which can be written: a run of its own in a project, or the run that is open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rote.errors import InputError, RunExistsError
from rote.extras import require
from rote.store.journal import SCHEMA_VERSION, collect_numbers
from rote.store.logger import Logger
from rote.store.sinks import Opened

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rote.records import Reading
    from rote.store.logger import Address

CONFIG_KEY = "rote"
STEP = "rote/step"
FLAGS = "rote/flags"
NOTE = "rote/note"
SCHEMA = "rote/schema"
RESUMED_AFTER = "rote/resumed_after"


class TrackioSink:
    """Logs readings as rows of one run of Trackio.

    Args:
        run: the run.
        is_own: whether the run is rote's, to be finished with it.
    """

    def __init__(self, run: Any, *, is_own: bool) -> None:  # noqa: ANN401
        self._run = run
        self._is_own = is_own

    def append(self, reading: Reading, row: int) -> None:  # noqa: ARG002
        """Log one reading."""
        own = {STEP: reading.step, FLAGS: " ".join(reading.flags)}
        own |= {NOTE: reading.note} if reading.note else {}
        # A run of rote's own has no other rows, so its steps are the readings'.
        self._log({**collect_numbers(reading), **own}, reading.step if self._is_own else None)

    def resume_after(self, step: int) -> None:
        """Log that readings after ``step`` do not count."""
        self._log({RESUMED_AFTER: step}, None)

    def close(self) -> None:
        """Finish the run, if it is rote's."""
        if self._is_own:
            self._run.finish()

    def _log(self, values: Mapping[str, Any], step: int | None) -> None:
        self._run.log({SCHEMA: SCHEMA_VERSION, **values}, step=step)


def open_trackio(address: Address, description: Mapping[str, Any], *, resume: bool) -> Opened:
    """Start a run in a project, or write to the one that is open.

    Args:
        address: without a project, the run of ``trackio.init`` is meant.
        description: what is run; without a name, Trackio gives one.
        resume: resume the open run; what it holds is not read back.

    Raises:
        InputError: if Trackio refuses, no run is open, or a project is to be resumed.
        RunExistsError: if the open run has a tracker's readings already.
    """
    require("trackio", extra="trackio")
    if address.place and resume:
        raise InputError(
            "Only the open run of Trackio can be resumed, with save_to='trackio:', not "
            f"{str(address)!r}. Open it with trackio.init(name=..., resume='must') first."
        )
    run = _create_run(address, description) if address.place else _find_open_run()
    if run is None:
        raise InputError(
            "No Trackio run is open for save_to='trackio:'. Call trackio.init() first, or pass "
            "trackio:PROJECT."
        )
    place = f"Trackio run {run.name}"
    if not address.place and not resume and CONFIG_KEY in (run.config or {}):
        raise RunExistsError(
            f"The open {place} already holds a tracker's readings.", place, "Open another run."
        )
    sink = TrackioSink(run, is_own=bool(address.place))
    if resume:
        return Opened(sink, place, held=None)
    if not address.place:
        run.config[CONFIG_KEY] = {**description, "name": description.get("name") or run.name}
    return Opened(sink, place, undo=run.finish if address.place else None)


def _find_open_run() -> Any:  # noqa: ANN401
    from trackio import context_vars

    return context_vars.current_run.get()


def _create_run(address: Address, description: Mapping[str, Any]) -> Any:  # noqa: ANN401
    import trackio
    from trackio import context_vars

    # Trackio would finish a run that the caller has open.
    token = context_vars.current_run.set(None)
    try:
        return trackio.init(
            project=address.place,
            name=description.get("name"),
            config={CONFIG_KEY: dict(description)},
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
    except Exception as error:
        raise InputError(f"Trackio cannot open {address}: {error}") from error
    finally:
        context_vars.current_run.reset(token)


LOGGER = Logger(open=open_trackio)
