"""Every exception and warning that rote raises; a spec's ``FieldError`` lives with the spec.

A message about a bad value reads "Expected <argument> to be <what>, got <value>. <what to do>". Any
other says what happened, on what, and how to fix it.
"""

import math
from collections.abc import Iterable
from difflib import get_close_matches

_SHOWN = 160  # characters of a value in a message
_BITS = 200  # a longer integer is not written out
_GUESSED = 100  # characters of a word that may be a typo


class RoteError(Exception):
    """Base of all errors raised by rote.

    Example:
        >>> try:
        ...     raise InputError("Expected `classes` to be at least 2, got 1.")
        ... except RoteError as error:
        ...     print(type(error).__name__)
        InputError
    """


class InputError(RoteError, ValueError):
    """An argument does not fit; nothing was touched.

    Example:
        >>> try:
        ...     raise InputError("Expected `classes` to be at least 2, got 1.")
        ... except ValueError as error:  # a ValueError as well
        ...     print(error)
        Expected `classes` to be at least 2, got 1.
    """


class TrialError(InputError):
    """Model, optimizer, inputs and objective do not go together: a first probe failed."""


class StateError(RoteError, ValueError):
    """A saved state does not belong to the object that loads it."""


class InterferenceError(RoteError, RuntimeError):
    """Training state was not restored, as found at the trial or with ``verify=True``.

    Example:
        >>> issubclass(InterferenceError, RoteError)
        True
    """


class ConcurrentProbeError(InterferenceError):
    """Another thread trains, or probes, the model that is being probed."""


class ProbeMemoryError(RoteError, RuntimeError):
    """There was not enough memory for a probe; training state is as before."""


class RunExistsError(RoteError, FileExistsError):
    """A place to write to is in use by an earlier run.

    Args:
        problem: a sentence that names the place.
        place: the directory, or the logger's run; empty if it holds no run.
        remedy: what to do about it, as another sentence.

    Attributes:
        problem: what is wrong, for callers that know a better remedy.
        place: the directory, or the logger's run.
        remedy: what to do about it.
    """

    def __init__(self, problem: str, place: str = "", remedy: str = "") -> None:
        super().__init__(f"{problem} {remedy}".strip())
        self.problem, self.place, self.remedy = problem, place, remedy


class DataChangedError(RunExistsError):
    """The data of a run are no longer those that it was trained on.

    Args:
        change: a sentence that names the file, the run and what has changed.
        content: the fingerprint of the data as they are now.
    """

    def __init__(self, change: str, content: str = "") -> None:
        super().__init__(change, remedy="Restore the file, or choose another directory.")
        self.content = content


class MissingWeightsError(InputError):
    """A checkpoint has no weights under the entry that was asked for.

    Args:
        problem: a sentence that names the file and what it holds.
        remedy: how to name another entry, as another sentence.

    Attributes:
        problem: what is wrong, for callers that name the entry in another way.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem} {remedy}")
        self.problem = problem


class RunLockedError(RoteError, RuntimeError):
    """Another process, or another tracker, is writing this run."""


class RankError(RoteError, RuntimeError):
    """Another rank of the same training failed; on this one nothing was wrong."""


class CorruptRunError(RoteError, ValueError):
    """The record of a run is damaged, or has an unknown version."""


class StoreError(RoteError, OSError):
    """A directory of runs cannot be used: the disk is full, or it is not allowed."""


class MissingExtraError(RoteError, ImportError):
    """An optional package is needed and not installed."""


class RoteWarning(UserWarning):
    """Base of all warnings given by rote.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always", RoteWarning)
        ...     warnings.warn("The loss diverged.", RoteWarning)
        >>> len(caught)
        1
    """


class NonFiniteReadingWarning(RoteWarning):
    """A reading is NaN or infinite; it is kept, and left out of the mean."""


class UnresolvedReadingWarning(RoteWarning):
    """A step changed the loss by less than the resolution of its floating-point type."""


class SkippedReadingWarning(RoteWarning):
    """A probe ran out of memory; training continues without this reading."""


class MicroBatchWarning(RoteWarning):
    """The probe passes S̃ through the model as a whole, although it has a micro-batch."""


class DivergingReadingWarning(RoteWarning):
    """A reading is far larger than a classifier's loss; the run may be diverging."""


class DominatedMeanWarning(RoteWarning):
    """One reading makes up more than half of the mean."""


class UncopiedStateWarning(RoteWarning):
    """The model or the objective holds state that cannot be restored, such as an iterator."""


class ProbabilitiesWarning(RoteWarning):
    """The model returns probabilities where the objective expects logits."""


class UnrepeatablePassWarning(RoteWarning):
    """Two forward passes from the same state differ, so drops contain noise."""


class OptimizerWarning(RoteWarning):
    """The optimizer that was tracked is not the one that trains the model any more."""


class LoggerWarning(RoteWarning):
    """A logger did not take a reading; training continues without it."""


class DamagedStateWarning(RoteWarning):
    """The newest saved state of a run is damaged; the run resumes from the one before it."""


class TornJournalWarning(RoteWarning):
    """A journal ends in a line that was cut off while being written; it is skipped."""


class GuessedNamesWarning(RoteWarning):
    """Columns of a file were read by what their names probably mean."""


class OddJournalWarning(RoteWarning):
    """Lines of a journal or table are missing, repeated, out of order or contradictory."""


class UnreadableRunWarning(RoteWarning):
    """A run of a store cannot be read; it is left out."""


class SmallHoldoutWarning(RoteWarning):
    """The holdout has fewer samples than what is measured on it needs; that is left out."""


class DamagedRowsWarning(RoteWarning):
    """What a run recorded per sample cannot be; it is left out."""


class PluginWarning(RoteWarning):
    """An extension that another package installs cannot be used; it is ignored."""


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown word: a guess at what was meant, or nothing.

    Example:
        >>> did_you_mean("momentm", ["lr", "momentum"])
        " Did you mean 'momentum'?"
    """
    names, text = list(known), given.lower() if isinstance(given, str) else ""
    if len(text) > _GUESSED:
        return ""
    longer = [name for name in names if text and name.startswith(text)]
    close = longer or get_close_matches(text, names, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def quote(value: object) -> str:
    """Return a value as messages show it: as in Python, but never longer than people read.

    Example:
        >>> quote("lr"), quote(10**400), quote([7] * 1000)[-14:]
        ("'lr'", 'an integer of about 400 digits', '…  7, 7, 7, 7]')
    """
    if isinstance(value, int) and value.bit_length() > _BITS:
        return f"an integer of about {int(value.bit_length() * math.log10(2))} digits"
    if isinstance(value, str) and len(value) > _SHOWN:
        value = value[:_SHOWN] + value[-_SHOWN:]  # what is cut off need not be quoted first
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  # nested too deeply, or an object that cannot be shown
        return f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 40]} … {text[-12:]}"
