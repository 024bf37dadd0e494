"""Lines that say which they are: what is missing, doubled, swapped or changed is noticed."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rote.errors import CorruptRunError, OddJournalWarning, StoreError
from rote.records import Reading
from rote.store import (
    RunDirectory,
    open_sinks,
    parse_targets,
    read_predictions,
    read_run,
    read_table,
)

DESCRIPTION = {"name": "run", "num_classes": 9, "holdout": {"predictions": [2]}}
COUNT = 5


def reading(step: int) -> Reading:
    drawn = np.array([step, step])
    return Reading(step, 2.5, 2.0, 0.5, 0.25, 0.1, metrics={"a": 0.125 * step}, predictions=drawn)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    opened = RunDirectory.create(tmp_path / "run", DESCRIPTION)
    for row in range(COUNT):
        opened.append(reading(row + 1), row)
    opened.close()
    return tmp_path / "run"


def change(run: Path, edit: Callable[[list[bytes]], object]) -> None:
    lines = (run / "journal.jsonl").read_bytes().splitlines(keepends=True)
    edit(lines)
    (run / "journal.jsonl").write_bytes(b"".join(lines))


def assert_reads(run: Path, steps: list[int], message: str) -> None:
    """By both readers, each step with its own predictions."""
    with pytest.warns(OddJournalWarning, match=message):
        record = read_run(run)
    with pytest.warns(OddJournalWarning, match=message):
        table = read_table(run)
    assert [entry.step for entry in record.readings] == table.frame["step"].to_list() == steps
    drawn, mapped = read_predictions(record), table.read_predictions("run")
    assert drawn is not None
    assert mapped is not None
    assert drawn[:, 0].tolist() == mapped[table.frame["row"].to_numpy()][:, 0].tolist() == steps


def test_missing_line_does_not_shift_other_readings(run: Path) -> None:
    change(run, lambda lines: lines.pop(1))
    assert_reads(run, [1, 3, 4, 5], "has lost 1 of its lines")


def test_a_doubled_line_counts_once(run: Path) -> None:
    change(run, lambda lines: lines.insert(4, lines[1]))
    assert_reads(run, [1, 2, 3, 4, 5], "has 1 lines twice")


def test_swapped_lines_count_in_the_order_of_writing(run: Path) -> None:
    change(run, lambda lines: lines.insert(0, lines.pop(3)))
    assert_reads(run, [1, 2, 3, 4, 5], "out of order")


@pytest.mark.parametrize("at", [0, 2, COUNT - 1])
def test_changed_digits_are_noticed_and_the_remedy_works(run: Path, at: int) -> None:
    def garble(lines: list[bytes]) -> None:
        lines[at] = lines[at].replace(b'"drop":0.5', b'"drop":0.6')

    change(run, garble)
    message = f"Line {at + 1} of .* does not fit its checksum.* delete that line to lose"
    for read in (read_run, read_table):
        with pytest.raises(CorruptRunError, match=message):
            read(run)
    change(run, lambda lines: lines.pop(at))
    if at < COUNT - 1:  # nothing tells that there was another line at the end
        assert_reads(run, [s for s in range(1, COUNT + 1) if s != at + 1], "has lost 1")


def test_every_changed_byte_is_detected(run: Path) -> None:
    journal = run / "journal.jsonl"
    whole = journal.read_bytes()
    line = whole.index(b"\n") + 1
    for at in range(line, 2 * line - 1):
        journal.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(CorruptRunError):
            read_run(run)


def test_lines_lost_before_a_resume_are_reported(run: Path) -> None:
    change(run, lambda lines: lines.pop(1))
    opened = RunDirectory.reopen(run)
    opened.append(reading(COUNT + 1), COUNT)
    opened.close()
    assert_reads(run, [1, *range(3, COUNT + 2)], "has lost 1")


def test_run_that_lost_a_reading_resumes_before_it(run: Path) -> None:
    change(run, lambda lines: lines.pop(2))
    with pytest.warns(OddJournalWarning, match="has lost 1"):
        sinks = open_sinks(parse_targets(run), DESCRIPTION, resume=True)
    assert [entry.step for entry in sinks.earlier] == [1, 2]
    sinks.resume_from([reading(step) for step in (1, 2, 3)])
    sinks.close()
    assert_reads(run, [1, 2, 3], "has lost 1")


FILES = ("journal.jsonl", "predictions.bin", "run.json", "writer.lock")


@pytest.mark.parametrize("name", FILES)
def test_file_removed_during_writing_is_noticed(tmp_path: Path, name: str) -> None:
    run = RunDirectory.create(tmp_path / "run", DESCRIPTION)
    run.append(reading(1), 0)
    (tmp_path / "run" / name).rename(tmp_path / "away")
    with pytest.raises(StoreError, match=f"{name} .*removed"):
        run.append(reading(2), 1)
    (tmp_path / "away").rename(tmp_path / "run" / name)
    run.append(reading(2), 1)
    run.close()
    assert len(read_run(tmp_path / "run").readings) == 2


@pytest.mark.parametrize("name", ["journal.jsonl", "predictions.bin", "writer.lock"])
def test_a_file_that_is_replaced_under_the_writer_is_noticed(tmp_path: Path, name: str) -> None:
    run = RunDirectory.create(tmp_path / "run", DESCRIPTION)
    run.append(reading(1), 0)
    (tmp_path / "copy").write_bytes((tmp_path / "run" / name).read_bytes())
    (tmp_path / "copy").replace(tmp_path / "run" / name)
    with pytest.raises(StoreError, match="removed or replaced .*another file"):
        run.append(reading(2), 1)
    run.close()


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("", "became unreadable"),
        ('{"schema":1,"rows":{"aum":{"dtype":"int8","shape":[3]}}}', "got other rows"),
    ],
)
def test_unreadable_description_is_noticed(tmp_path: Path, content: str, what: str) -> None:
    run = RunDirectory.create(tmp_path / "run", DESCRIPTION)
    file = tmp_path / "run" / "run.json"
    whole = file.read_text()
    file.write_text(content)
    for _ in range(2):
        with pytest.raises(StoreError, match=f"run.json {what}"):
            run.append(reading(1), 0)
    file.write_text(whole.replace('"name": "run"', '"name": "better"'))  # as people do
    run.append(reading(1), 0)
    run.close()
    assert len(read_run(tmp_path / "run").readings) == 1


def test_removal_of_the_run_directory_is_noticed(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "run", DESCRIPTION)
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="removed"):
        run.append(reading(1), 0)
    run.close()


def test_a_journal_that_was_emptied_is_noticed(run: Path) -> None:
    opened = RunDirectory.reopen(run)
    with (run / "journal.jsonl").open("wb"):
        pass
    with pytest.raises(StoreError, match="was changed .* has 0 bytes"):
        opened.append(reading(6), 5)
    opened.close()


def test_writer_works_after_a_change_of_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "below").mkdir()
    run = RunDirectory.create(Path("run"), DESCRIPTION)
    monkeypatch.chdir(tmp_path / "below")
    run.append(reading(1), 0)
    run.close()
    assert len(read_run(tmp_path / "run").readings) == 1
