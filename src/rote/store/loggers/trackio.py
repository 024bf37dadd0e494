"""Trackio, which can be written: a run of its own in a project, or the run that is open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rote.errors import InputError, RunExistsError
from rote.extras import require
from rote.store.logger import Logger
from rote.store.sinks import CONFIG_KEY, Opened, RowSink

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rote.records import Reading
    from rote.store.logger import Address


class TrackioSink(RowSink):
    """Logs readings as rows of one run of Trackio."""

    def append(self, reading: Reading, row: int) -> None:  # noqa: ARG002
        """Log one reading."""
        # A run of rote's own has no other rows, so its steps are the readings'.
        step = reading.step if self._is_own else None
        self._log(self._make_row(reading, " ".join(reading.flags)), step)


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
