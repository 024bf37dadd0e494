"""The state of a run: saved after epochs, loaded to resume with the same numbers."""

from typing import Any

from rote.arguments import check_integer
from rote.errors import RoteError, StateError, shown
from rote.records import Reading
from rote.store import STATE_FILE
from rote.tracking import Tracker
from rote.workloads.checkpoints import CheckpointKeeper
from rote.workloads.run_folder import RunFolder
from rote.workloads.workload import Workload

_VERSION = 1


class RunState:
    """Keeps the directory of a run in step with the run.

    After an epoch the journal comes first, then the checkpoint, then the state. A kill in between
    leaves a state from before: the epoch is then trained again, to the same bits, its reading in
    the journal is declared void, and its checkpoint is written again.
    """

    def __init__(self, workload: Workload, tracker: Tracker, folder: RunFolder) -> None:
        self._workload = workload
        self._tracker = tracker
        self._folder = folder
        spec = workload.spec
        self._every = spec.checkpoints.resume_every
        self._keeper = CheckpointKeeper(spec.checkpoints, folder.path, spec.epochs)

    def begin(self) -> int:
        """Put everything back to where the run stood, or write down how it begins.

        Returns:
            How many epochs are done.

        Raises:
            StateError: if the state was saved by another version, or is gone.
        """
        state = self._folder.states.load()
        if state is None and self._tracker.readings:
            raise StateError(
                f"{self._folder.path} has readings but no {STATE_FILE}, so the run cannot resume. "
                "Start it again in another directory."
            )
        if state is None:
            self._folder.record(self._workload.splits.record)
            self._folder.describe(self._workload.splits.description, finished=False)
            self._save(0)
            return 0
        if state.get("version") != _VERSION:
            raise StateError(
                f"The saved state of {self._folder.path} has version "
                f"{shown(state.get('version'))}, not {_VERSION}. Start the run again in another "
                "directory."
            )
        self._folder.check_record(self._workload.splits.record)
        try:
            return self._restore(state)
        except (LookupError, TypeError, AttributeError, ValueError, RuntimeError) as error:
            if isinstance(error, RoteError):
                raise
            raise StateError(
                f"The saved state of {self._folder.path} does not fit this run: "
                f"{shown(str(error))}. Start the run again in another directory."
            ) from error

    def _restore(self, state: dict[str, Any]) -> int:
        epoch = check_integer("epoch", state["epoch"], least=0, most=self._workload.spec.epochs)
        self._workload.load_state_dict(state["workload"])
        self._tracker.load_state_dict(state["tracker"])
        self._keeper.load_state_dict(state["keeper"])
        return epoch

    def advance(self, epoch: int, reading: Reading | None) -> None:
        """Keep a checkpoint and a state after an epoch that is in the journal."""
        self._keeper.keep(self._workload.model, epoch, reading)
        if epoch % self._every == 0 and epoch < self._workload.spec.epochs:
            self._save(epoch)

    def finish(self) -> dict[str, Any]:
        """Declare the run finished."""
        if self._workload.out_of_sample is not None:
            self._folder.record_out_of_sample(self._workload.out_of_sample.record())
        return self._folder.finish(self._workload.splits.description)

    def _save(self, epoch: int) -> None:
        self._folder.states.save(
            {
                "version": _VERSION,
                "epoch": epoch,
                "workload": self._workload.state_dict(),
                "tracker": self._tracker.state_dict(),
                "keeper": self._keeper.state_dict(),
            }
        )
