"""The signals of one tracker, as one: started, shown batches, read together or not at all."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import replace
from operator import itemgetter
from typing import Any

from rote.errors import InputError, StateError
from rote.records import Column, Reading, column_named
from rote.snapshot import RandomState, delayed_interrupts, restored, verified
from rote.store import check_metric_name
from rote.tracking.signal import Signal, SignalContext, find_signal
from rote.tracking.signal_batch import Batch

_NEEDED = ("name", "columns", "observe", "read", "state_dict", "load_state_dict")


class Signals:
    """Several signals.

    Args:
        signals: signals, or their names.
        context: what they may look at; the tracker keeps it up to date.

    Raises:
        InputError: if there is no such signal, two share a name or a column, or one cannot do
            with this run.
    """

    def __init__(self, signals: Iterable[str | Signal], context: SignalContext) -> None:
        self.context = context
        self._signals = tuple(_checked(find_signal(signal)) for signal in signals)
        names = Counter(signal.name for signal in self._signals)
        name, count = max(names.items(), key=itemgetter(1), default=("", 0))
        if count > 1:
            raise InputError(f"Expected `signals` to be different ones, got `{name}` twice.")
        with restored(RandomState()):
            for signal in self._signals:
                if hasattr(signal, "start"):
                    signal.start(context)
        # One that does not watch cannot draw there either.
        self._draws = any(
            getattr(signal, "draws", True) and type(signal).observe is not Signal.observe
            for signal in self._signals
        )
        self._homes: dict[str, str] = {}
        self._columns: dict[str, Column] = {}
        for signal in self._signals:
            for column in signal.columns:
                self._add(column_named(column) if isinstance(column, str) else column, signal.name)

    def __iter__(self) -> Iterator[Signal]:
        return iter(self._signals)

    def __len__(self) -> int:
        return len(self._signals)

    def describe(self) -> dict[str, Any]:
        """What ``run.json`` says about their columns and row files."""
        columns = {name: column.describe() for name, column in self._columns.items()}
        files = {
            name: {"dtype": dtype, "shape": list(shape)}
            for signal in self._signals
            for name, (dtype, shape) in getattr(signal, "row_files", {}).items()
        }
        return ({"columns": columns} if columns else {}) | ({"rows": files} if files else {})

    def check_metrics(self, metrics: Mapping[str, float]) -> None:
        """Refuse a metric of the caller's under a name that a signal has.

        Raises:
            InputError: naming the signal.
        """
        for name in metrics:
            if name in self._homes:
                raise InputError(
                    f"Expected a metric's name to be free, got `{name}`, which signal "
                    f"`{self._homes[name]}` measures."
                )

    def observe(self, batch: Batch) -> None:
        """Show them a batch; the training's random numbers stay as they are."""
        with restored(RandomState()) if self._draws else nullcontext():
            for signal in self._signals:
                signal.observe(batch)

    def read(self, reading: Reading) -> Reading:
        """A reading with what they measure.

        Raises:
            InputError: if one returns a column that it has not described.
            InterferenceError: with a policy that verifies, if one has changed the training.
        """
        found: dict[str, float] = {}
        for signal in self._signals:
            with self._check(), restored(RandomState()):
                values = signal.read(reading.step)
            undescribed = [name for name in values if self._homes.get(name) != signal.name]
            if undescribed:
                raise InputError(
                    f"Expected signal `{signal.name}` to read the columns that it describes, got "
                    f"`{undescribed[0]}`. Add it to its `columns`."
                )
            found |= {name: float(value) for name, value in values.items()}
        accuracy = found.pop("validation_accuracy", reading.validation_accuracy)
        rows = [signal.rows() for signal in self._signals if hasattr(signal, "rows")]
        return replace(
            reading,
            validation_accuracy=accuracy,
            metrics={**found, **reading.metrics},
            sample_rows={name: row for named in rows for name, row in named.items()},
        )

    @contextmanager
    def tentative(self) -> Iterator[None]:
        """If the block fails, they are as if they had not been read."""
        state = deepcopy(self.state_dict())
        try:
            yield
        except BaseException:
            with delayed_interrupts():
                self.load_state_dict(state)
            raise

    def state_dict(self) -> dict[str, dict[str, Any]]:
        """The states of those that have one, by name."""
        states = {signal.name: signal.state_dict() for signal in self._signals}
        return {name: state for name, state in states.items() if state}

    def load_state_dict(self, state: Mapping[str, Mapping[str, Any]]) -> None:
        """Go on from a state.

        Raises:
            StateError: if it belongs to other signals.
        """
        known = {signal.name: signal for signal in self._signals}
        for name in state.keys() - known.keys():
            raise StateError(
                f"Expected a state of the signals {', '.join(known) or '(none)'}, got one of "
                f"`{name}`. Pass the same `signals`."
            )
        for name, values in state.items():
            known[name].load_state_dict(values)

    def _add(self, column: Column, signal: str) -> None:
        if column.name != "validation_accuracy":
            try:
                check_metric_name(column.name)
            except InputError as error:
                raise InputError(f"Signal `{signal}` cannot be recorded. {error}") from error
        if column.name in self._homes:
            raise InputError(
                f"Expected every column to come from one signal, got `{column.name}` from "
                f"`{self._homes[column.name]}` and `{signal}`."
            )
        self._columns[column.name] = column
        self._homes[column.name] = signal

    def _check(self) -> Any:  # noqa: ANN401
        context = self.context
        is_checked = context.policy.verify
        return verified(context.model, context.optimizer) if is_checked else nullcontext()


def _checked(signal: Signal) -> Signal:
    missing = [name for name in _NEEDED if not hasattr(signal, name)]
    if missing or isinstance(signal, type):
        what = f"without {', '.join(missing)}" if missing else "a class: make one of it"
        raise InputError(
            f"Expected `signals` to hold signals (rote.Signal) or their names, got {signal!r}, "
            f"{what}."
        )
    return signal
