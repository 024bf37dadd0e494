import json
import math
import os
import pickle
import signal
import subprocess
import sys
import warnings
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies

import rote
from rote.errors import (
    CorruptRunError,
    InputError,
    NonFiniteReadingWarning,
    RunExistsError,
    RunLockedError,
    StateError,
    TornJournalWarning,
)
from rote.records import Reading
from rote.store import RunDirectory, read_predictions, read_run, read_whole_readings
from rote.store.journal import decode_reading, encode_reading, is_reserved
from tests.tracking.test_tracker import HOLDOUT, Run, without_seconds

READING = Reading(
    step=1,
    loss_before=2.5,
    loss_after=2.25,
    drop=0.25,
    susceptibility=0.25,
    susceptibility_relative=0.1,
    metrics={"train_accuracy": 0.5},
)


def new_run(path: Path) -> RunDirectory:
    return RunDirectory.create(path, {"name": "a", "num_classes": 3})


def test_a_saved_run_reads_back_as_it_was(tmp_path: Path) -> None:
    run = Run(save_to=tmp_path / "run", name="first")
    run.epochs(1, 5)
    record = read_run(tmp_path / "run")
    assert record.readings == tuple(run.tracker.readings)
    assert record.description["name"] == "first"
    assert record.description["seed"] == 0
    assert record.description["versions"]["torch"] == torch.__version__
    assert record.description["holdout"]["hash"] == run.tracker.batch.holdout_hash
    labels = [int(label) for label in record.description["labels"]["values"].split()]
    assert labels == run.tracker.batch.labels.tolist()
    rows = read_predictions(record)
    assert rows is not None
    assert rows.dtype == np.uint8
    assert all(reading.predictions is None for reading in run.tracker.readings)  # only on disk
    alone = Run()
    alone.epochs(1, 5)
    stacked = [reading.predictions for reading in alone.tracker.readings]
    assert np.array_equal(rows, np.stack(stacked))  # type: ignore[arg-type]


@pytest.mark.parametrize("lost_bytes", range(0, 400, 37))
def test_a_truncated_last_line_is_skipped_with_a_warning(tmp_path: Path, lost_bytes: int) -> None:
    run = Run(save_to=tmp_path / "run")
    run.epochs(1, 3)
    journal = tmp_path / "run" / "journal.jsonl"
    whole = journal.read_bytes()
    last = len(whole.rsplit(b"\n", 2)[1])
    journal.write_bytes(whole[: len(whole) - 1 - min(lost_bytes, last)])
    if 0 < lost_bytes < last:
        with pytest.warns(TornJournalWarning, match=r"Line 3 of .* was cut off"):
            record = read_run(tmp_path / "run")
    else:
        record = read_run(tmp_path / "run")
    kept = 3 if lost_bytes == 0 else 2
    assert record.readings == tuple(run.tracker.readings[:kept])


def test_a_damaged_line_in_the_middle_is_an_error(tmp_path: Path) -> None:
    run = Run(save_to=tmp_path / "run")
    run.epochs(1, 3)
    journal = tmp_path / "run" / "journal.jsonl"
    lines = journal.read_bytes().split(b"\n")
    lines[1] = lines[1][:50]
    journal.write_bytes(b"\n".join(lines))
    with pytest.raises(CorruptRunError, match=r"Line 2 of .* cut off\. .* or delete that line"):
        read_run(tmp_path / "run")


def test_newer_schemas_are_refused(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    run.append(READING, row=0)
    run.close()
    journal = tmp_path / "run" / "journal.jsonl"
    journal.write_text(journal.read_text().replace('"schema":1', '"schema":2'))
    with pytest.raises(CorruptRunError, match="Expected schema 1 in line 1 .* got 2.*update rote"):
        read_run(tmp_path / "run")


def test_directory_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorruptRunError, match=r"run\.json does not describe a run"):
        read_run(tmp_path)
    (tmp_path / "run.json").write_text("[]")
    with pytest.raises(CorruptRunError, match=r"run\.json to hold an object, got \[\]"):
        read_run(tmp_path)


number = strategies.floats(allow_nan=True, allow_infinity=True)
names = strategies.text(min_size=1, max_size=8).filter(lambda name: not is_reserved(name))


@given(
    values=strategies.lists(number, min_size=5, max_size=5),
    metrics=strategies.dictionaries(names, number),
)
def test_line_contains_all_finite_values(values: list[float], metrics: dict[str, float]) -> None:
    reading = Reading(3, *values, metrics=metrics)
    line = json.loads(json.dumps(encode_reading(reading), allow_nan=False))
    back = decode_reading(line)
    pairs = zip(
        [*reading.to_dict().items(), *metrics.items()],
        [*back.to_dict().items(), *back.metrics.items()],
        strict=True,
    )
    for (name, mine), (other_name, theirs) in pairs:
        assert name == other_name
        if isinstance(mine, float):
            assert theirs == mine or (math.isnan(theirs) and not math.isfinite(mine))


def test_a_used_directory_is_refused(tmp_path: Path) -> None:
    Run(save_to=tmp_path / "run").epochs(1, 2)
    before = {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir()}
    with pytest.raises(RunExistsError, match="run is in use.*resume=True"):
        Run(save_to=tmp_path / "run")
    assert {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir()} == before
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(RunExistsError, match="file is a file"):
        Run(save_to=file)
    assert file.read_text() == "mine"


def test_an_impossible_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="Cannot write to .*: Not a directory"):
        new_run(tmp_path / "file" / "run")
    with pytest.raises(InputError, match="No run to resume in .*run.json.*resume=False"):
        Run(save_to=tmp_path / "nothing", resume=True)


WRITER = """
import sys, rote
from pathlib import Path
from rote.records import Reading
from rote.store import RunDirectory
path = Path(sys.argv[1])
run = RunDirectory.reopen(path) if path.exists() else RunDirectory.create(path, {"num_classes": 3})
reading = Reading(1, 2.5, 2.25, 0.25, 0.25, 0.1, metrics={"note": 1.0})
row = 0
while True:
    print(row, flush=True)
    run.append(Reading(row + 1, 2.5, 2.25, 0.25, 0.25, 0.1), row)
    row += 1
"""


def start_writer(path: Path, lines: int) -> "subprocess.Popen[str]":
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    for _ in range(lines):
        writer.stdout.readline()
    return writer


def test_two_processes_cannot_write_one_run(tmp_path: Path) -> None:
    writer = start_writer(tmp_path / "run", lines=2)
    try:
        with pytest.raises(RunLockedError, match=f"written by process {writer.pid} on "):
            RunDirectory.reopen(tmp_path / "run")
    finally:
        writer.kill()
        writer.communicate()
    RunDirectory.reopen(tmp_path / "run").close()


@pytest.mark.filterwarnings("ignore::rote.errors.TornJournalWarning")
@pytest.mark.parametrize("lines", [1, 5, 40, 300])
def test_a_kill_loses_at_most_the_line_being_written(tmp_path: Path, lines: int) -> None:
    writer = start_writer(tmp_path / "run", lines)
    writer.send_signal(signal.SIGKILL)
    rest, _ = writer.communicate()
    announced = lines + len(rest.splitlines())
    steps = [reading.step for reading in read_run(tmp_path / "run").readings]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) >= announced - 1


def test_two_trackers_of_one_process_cannot_write_one_run(tmp_path: Path) -> None:
    run = Run(save_to=tmp_path / "run")
    with pytest.raises(RunLockedError, match=f"process {os.getpid()}"):
        Run(save_to=tmp_path / "run", resume=True)
    run.tracker.close()
    Run(save_to=tmp_path / "run", resume=True).tracker.close()


@pytest.mark.parametrize("truncated", [False, True])
@pytest.mark.parametrize(
    "policy", [rote.ProbePolicy(batch=8), rote.ProbePolicy(batch=8, resample=True)]
)
def test_a_run_resumed_from_its_journal_continues(
    tmp_path: Path, policy: rote.ProbePolicy, truncated: bool
) -> None:
    whole = Run(policy)
    whole.epochs(1, 7)
    first = Run(policy, save_to=tmp_path / "run")
    first.epochs(1, 4)
    file = first.checkpoint()
    first.tracker.close()
    if truncated:
        with (tmp_path / "run" / "journal.jsonl").open("ab") as journal:
            journal.write(b'{"schema":1,"kind":"rea')
        with pytest.warns(TornJournalWarning):
            second = Run(policy, save_to=tmp_path / "run", resume=True)
    else:
        second = Run(policy, save_to=tmp_path / "run", resume=True)
    state = torch.load(file, weights_only=True)
    second.model.load_state_dict(state["model"])
    second.optimizer.load_state_dict(state["optimizer"])
    second.epochs(5, 7)
    second.tracker.close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TornJournalWarning)
        readings = list(read_whole_readings(tmp_path / "run"))
    assert readings == second.tracker.readings
    assert without_seconds(readings) == without_seconds(whole.tracker.readings)


def same_but_seconds(mine: Reading, theirs: Reading) -> bool:
    return replace(mine, seconds=0.0) == replace(theirs, seconds=0.0)


@settings(max_examples=15, deadline=None)
@given(
    stops=strategies.lists(
        strategies.tuples(strategies.integers(0, 3), strategies.integers(1, 3)), max_size=4
    )
)
def test_readings_after_the_loaded_state_are_taken_again(
    tmp_path_factory: pytest.TempPathFactory, stops: list[tuple[int, int]]
) -> None:
    """Train, fall back to an earlier checkpoint, go on; the journal ends as if undisturbed."""
    path: Any = tmp_path_factory.mktemp("runs") / "run"
    whole = Run()
    whole.epochs(1, 8)
    run, at = Run(save_to=path), 0
    checkpoints = {0: run.checkpoint()}
    for back, forward in [*stops, (0, 8)]:
        for epoch in range(at + 1, min(at + forward, 8) + 1):
            run.epochs(epoch, epoch)
            checkpoints[epoch] = run.checkpoint()
            at = epoch
        if at == 8:
            break
        run.tracker.close()
        at = max(0, at - back)
        run = Run(save_to=path, resume=True)
        run.load(checkpoints[at])
        checkpoints[at].seek(0)
    run.tracker.close()
    record = read_run(path)
    pairs = zip(record.readings, whole.tracker.readings, strict=True)
    assert all(same_but_seconds(mine, theirs) for mine, theirs in pairs)
    rows = read_predictions(record)
    assert rows is not None
    expected = [reading.predictions for reading in whole.tracker.readings]
    assert np.array_equal(rows, np.stack(expected))  # type: ignore[arg-type]


def test_a_state_with_deleted_readings_is_refused(tmp_path: Path) -> None:
    run = Run(save_to=tmp_path / "run")
    run.epochs(1, 4)
    file = run.checkpoint()
    run.tracker.close()
    journal = tmp_path / "run" / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:2]))
    again = Run(save_to=tmp_path / "run", resume=True)
    with pytest.raises(StateError, match="saved after 4 readings of .*run, which the journal no"):
        again.load(file)
    again.tracker.close()
    assert len(read_run(tmp_path / "run").readings) == 2


def test_a_state_can_start_another_run_beside_the_first(tmp_path: Path) -> None:
    run = Run(save_to=tmp_path / "run")
    run.epochs(1, 4)
    file = run.checkpoint()
    run.tracker.close()
    branch = Run(save_to=tmp_path / "branch")
    branch.load(file)
    branch.tracker.close()
    first, second = (read_run(tmp_path / name) for name in ("run", "branch"))
    assert second.readings == first.readings
    assert np.array_equal(read_predictions(second), read_predictions(first))  # type: ignore[arg-type]


RESAMPLED = rote.ProbePolicy(batch=8, resample=True)


@pytest.mark.parametrize("policy", [RESAMPLED, rote.ProbePolicy(batch=8)], ids=["resample", "same"])
@pytest.mark.parametrize("inputs", ["holdout", "loader"])
def test_every_state_continues_every_journal(
    tmp_path: Path, policy: rote.ProbePolicy, inputs: str
) -> None:
    """The holdout (20) is larger than the batch (8); the state may be older than the journal."""
    epochs = 4
    dataset = torch.utils.data.TensorDataset(HOLDOUT)
    given: dict[str, Any] = {} if inputs == "holdout" else {"inputs": dataset, "given_labels": None}
    if inputs == "loader" and not policy.resample:
        pytest.skip("drawn once: the same as a holdout")
    whole = Run(policy, **given)
    whole.epochs(1, epochs)
    expected = [replace(reading, seconds=0.0) for reading in whole.tracker.readings]
    for length in range(epochs):
        for state in range(length + 1):
            path = tmp_path / f"{length}-{state}"
            run = Run(policy, save_to=path, **given)
            run.epochs(1, state)
            file = run.checkpoint()
            run.epochs(state + 1, length)
            run.tracker.close()
            again = Run(policy, save_to=path, resume=True, **given)
            again.load(file)
            again.epochs(state + 1, epochs)
            again.tracker.close()
            found = [replace(reading, seconds=0.0) for reading in read_run(path).readings]
            assert found == expected, (length, state)


def test_the_state_of_a_saved_run_does_not_grow(tmp_path: Path) -> None:
    run = Run(save_to=tmp_path / "run")
    run.epochs(1, 1)
    first = len(run.checkpoint().getvalue())
    run.epochs(2, 12)
    assert abs(len(run.checkpoint().getvalue()) - first) < 64
    assert run.tracker.state_dict()["readings"] is None


@pytest.mark.parametrize("copy", [deepcopy, lambda tracker: pickle.loads(pickle.dumps(tracker))])
def test_a_copy_of_a_tracker_does_not_write(tmp_path: Path, copy: Any) -> None:
    run = Run(save_to=tmp_path / "run")
    run.epochs(1, 2)
    with pytest.raises(InputError, match=r"is a copy.*Probe with the original"):
        copy(run.tracker).probe()
    run.epochs(3, 3)
    run.tracker.close()
    assert [reading.step for reading in read_run(tmp_path / "run").readings] == [1, 2, 3]
    alone = Run()
    alone.epochs(1, 1)
    assert copy(alone.tracker).probe() is not None


@pytest.mark.parametrize("name", ["\ud800", "a\udfffb", ""])
def test_metric_names_that_cannot_be_written_are_refused(tmp_path: Path, name: str) -> None:
    run = Run(save_to=tmp_path / "run")
    with pytest.raises(InputError, match="metric's name to be Unicode text"):
        run.tracker.probe(**{name: 1.0})
    run.epochs(1, 1)
    run.tracker.close()
    assert [reading.step for reading in read_run(tmp_path / "run").readings] == [1]


def test_an_infinite_metric_is_recorded_as_missing_with_a_warning(tmp_path: Path) -> None:
    run = Run(save_to=tmp_path / "run")
    with pytest.warns(NonFiniteReadingWarning, match="`loss` is infinite at step 1"):
        run.tracker.probe(loss=math.inf)
    run.tracker.probe(loss=-math.inf)
    assert all(math.isnan(reading.loss) for reading in run.tracker.readings)
    assert all(math.isnan(reading.loss) for reading in read_run(tmp_path / "run").readings)


@pytest.mark.parametrize(("place", "reason"), [("a" * 300, "too long"), ("a\0b", "null character")])
def test_impossible_directory_gives_a_one_sentence_error(
    tmp_path: Path, place: str, reason: str
) -> None:
    for save_to in (f"{tmp_path}/{place}", Path(f"{tmp_path}/{place}"), place):
        with pytest.raises(InputError, match=f"`save_to` to be a path.*{reason}"):
            Run(save_to=save_to)


def test_a_seed_that_no_generator_takes_is_refused() -> None:
    with pytest.raises(InputError, match="`seed` to be an integer of at least"):
        Run(seed=2**200)


def test_another_run_cannot_be_resumed(tmp_path: Path) -> None:
    Run(save_to=tmp_path / "run").tracker.close()
    with pytest.raises(StateError, match="Cannot resume .* the holdout .* changed"):
        Run(save_to=tmp_path / "run", resume=True, inputs=HOLDOUT + 1)
    with pytest.raises(StateError, match="Cannot resume .* the random labels .* changed"):
        Run(save_to=tmp_path / "run", resume=True, seed=1)
    Run(save_to=tmp_path / "run", resume=True).tracker.close()


def test_many_classes_get_wider_integers(tmp_path: Path) -> None:
    run = RunDirectory.create(
        tmp_path / "run", {"num_classes": 1000, "holdout": {"predictions": [3]}}
    )
    run.append(replace(READING, predictions=np.array([0, 256, 999])), row=0)
    run.close()
    rows = read_predictions(read_run(tmp_path / "run"))
    assert rows is not None
    assert rows.tolist() == [[0, 256, 999]]
    assert (tmp_path / "run" / "predictions.bin").stat().st_size == 6


FRAGMENT = b'{"schema":1,"kind":"rea'


@pytest.mark.parametrize("fragments", [1, 2, 3])
@pytest.mark.parametrize("whole_lines", [0, 2])
def test_run_can_be_resumed_after_repeated_kills(
    tmp_path: Path, whole_lines: int, fragments: int
) -> None:
    """A kill during the first line, and kills during the resumes after it."""
    run = Run(save_to=tmp_path / "run")
    run.epochs(1, whole_lines)
    run.tracker.close()
    journal = tmp_path / "run" / "journal.jsonl"
    with journal.open("ab") as file:
        file.write(b"\n".join([FRAGMENT] * fragments))
    with pytest.warns(TornJournalWarning):
        again = Run(save_to=tmp_path / "run", resume=True)
    again.epochs(whole_lines + 1, 3)
    again.tracker.close()
    with pytest.warns(TornJournalWarning):
        record = read_run(tmp_path / "run")
    assert [reading.step for reading in record.readings] == [1, 2, 3]


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from rote.records import Reading
from rote.store import RunDirectory, read_run
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = Path(sys.argv[1])
run = RunDirectory.create(path, {"num_classes": 3})
def reading(step): return Reading(step, 2.5, 2.25, 0.25, 0.25, 0.1)
run.append(reading(1), 0)
size = (path / "journal.jsonl").stat().st_size
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, hard))
try:
    run.append(reading(2), 1)
except OSError as error:
    print(type(error).__name__)
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
run.append(reading(2), 1)
print([entry.step for entry in read_run(path).readings])
"""


def test_a_full_disk_loses_only_what_did_not_fit(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "run")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["OSError", "[1, 2]"]


def test_kill_at_the_start_leaves_no_run(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "writer.lock").write_text("process 1 on nowhere")
    (tmp_path / "run" / "run.draft").write_text("{")
    Run(save_to=tmp_path / "run").tracker.close()
    assert read_run(tmp_path / "run").readings == ()


def test_unusual_settings_can_be_described(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.defaults["limit"] = math.inf
    rote.track(
        model,
        optimizer,
        inputs=torch.ones(4, 2),
        num_classes=3,
        name=Path("named"),  # type: ignore[arg-type]
        save_to=tmp_path / "run",
        policy=rote.ProbePolicy(plain=rote.PlainStep(np.float32(0.5))),  # type: ignore[arg-type]
    )
    description = read_run(tmp_path / "run").description
    assert description["optimizer"]["settings"]["limit"] == "inf"
    assert description["name"] == "named"


FORKED = """
import os, sys
from pathlib import Path
from rote.errors import RunLockedError
from rote.records import Reading
from rote.store import RunDirectory
path = Path(sys.argv[1])
run = RunDirectory.create(path, {"num_classes": 3})
child = os.fork()
if child == 0:
    try:
        run.append(Reading(1, 2.5, 2.25, 0.25, 0.25, 0.1), 0)
    except RunLockedError as error:
        os._exit(0 if "forked off it" in str(error) else 1)
    os._exit(2)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status))
"""


def test_a_forked_child_cannot_write(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKED, str(tmp_path / "run")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "0"
    assert read_run(tmp_path / "run").readings == ()


def test_a_failed_resume_leaves_the_run_free(tmp_path: Path) -> None:
    run = Run(save_to=tmp_path / "run")
    run.epochs(1, 2)
    run.tracker.close()
    rows = tmp_path / "run" / "predictions.bin"
    whole = rows.read_bytes()
    rows.write_bytes(whole[:10])  # less than the first row, which was synced
    for _ in range(2):
        with pytest.raises(CorruptRunError, match="Row 0 of .* changed after it was written"):
            Run(save_to=tmp_path / "run", resume=True)
    rows.write_bytes(whole)
    Run(save_to=tmp_path / "run", resume=True).tracker.close()


def test_verifying_a_resumed_run_is_allowed(tmp_path: Path) -> None:
    Run(save_to=tmp_path / "run").tracker.close()
    Run(
        rote.ProbePolicy(batch=8, verify=True), save_to=tmp_path / "run", resume=True
    ).tracker.close()
