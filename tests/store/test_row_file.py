"""What is recorded per sample: one file per name, one row per reading."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rote.errors import CorruptRunError, DamagedRowsWarning, InputError, StoreError
from rote.records import Reading
from rote.store import (
    RunDirectory,
    files,
    open_sinks,
    parse_targets,
    read_predictions,
    read_run,
    read_table,
)
from rote.store.run_record import read_rows

ROWS = {"aum": {"dtype": "float32", "shape": [4]}, "seen": {"dtype": "bool", "shape": [2, 3]}}
DESCRIPTION: dict[str, Any] = {"num_classes": 3, "holdout": {"predictions": [5]}, "rows": ROWS}


def reading(step: int, seed: int = 0) -> Reading:
    rng = np.random.default_rng([seed, step])
    rows = {"aum": rng.random(4), "seen": rng.random((2, 3)) < 0.5}
    entry = Reading(step, 2.5, 2.0, 0.5 + seed, 0.25, 0.1)
    return replace(entry, predictions=rng.integers(3, size=5), sample_rows=rows)


def test_every_name_has_a_file_of_its_own(tmp_path: Path) -> None:
    found = [reading(step) for step in range(1, 5)]
    run = RunDirectory.create(tmp_path / "run", DESCRIPTION)
    for row, entry in enumerate(found):
        run.append(entry, row)
    run.resume_after(3)
    run.close()
    assert (tmp_path / "run" / "aum.bin").stat().st_size == 4 * 4 * 4
    record, table = read_run(tmp_path / "run"), read_table(tmp_path)
    assert record.description["rows"] == ROWS
    for name, dtype in (("aum", np.float32), ("seen", np.bool_)):
        expected = np.stack([entry.sample_rows[name] for entry in found]).astype(dtype)
        np.testing.assert_array_equal(read_rows(record, name), expected[:3], strict=True)
        mapped = table.read_rows("run", name)
        assert isinstance(mapped, np.memmap)
        np.testing.assert_array_equal(mapped, expected)
    np.testing.assert_array_equal(
        table.read_rows("run", "predictions"), table.read_predictions("run")
    )
    np.testing.assert_array_equal(read_rows(record, "predictions"), read_predictions(record))


def test_rows_that_are_not_there_are_none(tmp_path: Path) -> None:
    RunDirectory.create(tmp_path / "run", DESCRIPTION).close()
    record, table = read_run(tmp_path / "run"), read_table(tmp_path)
    assert table.read_rows("run", "aum") is None  # not yet
    assert read_rows(record, "other") is None
    assert table.read_rows("run", "other") is table.read_rows("unknown", "aum") is None
    (tmp_path / "run" / "aum.bin").unlink()
    assert read_rows(record, "aum") is table.read_rows("run", "aum") is None


def test_a_resumed_run_overwrites_the_rows_that_it_repeats(tmp_path: Path) -> None:
    targets = parse_targets([tmp_path / "run", tmp_path / "copy"])
    sinks = open_sinks(targets, DESCRIPTION, resume=False)
    for row in range(4):
        sinks.append(reading(row + 1, seed=row > 1), row)  # the last two will be taken again
    sinks.close()
    journal = tmp_path / "copy" / "journal.jsonl"  # a kill left less there
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:1]))
    sinks = open_sinks(targets, DESCRIPTION, resume=True)
    sinks.resume_from(sinks.earlier[:2])
    sinks.append(reading(3), 2)
    sinks.close()
    for name in ("run", "copy"):
        rows = read_rows(read_run(tmp_path / name), "aum")
        expected = np.stack([reading(step).sample_rows["aum"] for step in (1, 2, 3)])
        np.testing.assert_array_equal(rows, expected.astype(np.float32))
    (tmp_path / "run" / "aum.bin").write_bytes(b"1234567")
    with pytest.raises(CorruptRunError, match=r"Row 0 of .*aum\.bin was changed"):
        open_sinks(targets, DESCRIPTION, resume=True)


def damages() -> dict[str, Callable[[Path], object]]:
    def changed(file: Path) -> None:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1  # of the second of three rows, and still a class
        file.write_bytes(content)

    def swapped(file: Path) -> None:
        content = file.read_bytes()
        third = len(content) // 3
        file.write_bytes(content[:third] + content[2 * third :] + content[third : 2 * third])

    return {
        "changed": changed,
        "swapped": swapped,
        "cut": lambda file: file.write_bytes(file.read_bytes()[:-1]),
        "zeros": lambda file: file.write_bytes(bytes(file.stat().st_size)),
        "gone": Path.unlink,
    }


@pytest.mark.parametrize("name", ["predictions", "aum", "seen"])
@pytest.mark.parametrize("damage", damages())
def test_a_row_that_is_not_as_it_was_written_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str, name: str
) -> None:
    monkeypatch.setattr(files, "SYNC_SECONDS", 0.0)
    run = RunDirectory.create(tmp_path / "run", DESCRIPTION)
    for row, step in enumerate((1, 2, 3)):
        run.append(reading(step), row)
    run.close()
    damages()[damage](tmp_path / "run" / f"{name}.bin")
    record, table = read_run(tmp_path / "run"), read_table(tmp_path)
    with pytest.raises(CorruptRunError, match=rf"Row \d of .*{name}\.bin was changed"):
        read_rows(record, name)
    with pytest.warns(DamagedRowsWarning, match=rf"Left out `{name}` of 'run': row \d of .*\.bin"):
        assert table.read_rows("run", name) is None
    assert table.read_rows("run", name) is None  # said once
    others = {"predictions", "aum", "seen"} - {name}
    assert all(read_rows(record, other) is not None for other in others)
    assert not [column for column in table.frame.columns if "#" in column]


def test_rows_of_the_last_second_may_be_lost_and_no_others(tmp_path: Path) -> None:
    """After a power cut: row 0 was synced, rows 1 to 3 were not, and row 2 did not survive."""
    run = RunDirectory.create(tmp_path / "run", DESCRIPTION)
    for row in range(4):
        run.append(reading(row + 1), row)
    run.close()
    file = tmp_path / "run" / "aum.bin"
    whole = file.read_bytes()
    file.write_bytes(whole[: 2 * 16] + bytes(16) + whole[3 * 16 :])
    record = read_run(tmp_path / "run")
    assert (record.synced_rows, len(record.readings)) == (1, 4)
    with pytest.warns(DamagedRowsWarning, match=r"aum\.bin from row 2 on were lost.*Resume"):
        assert np.shape(read_rows(record, "aum")) == (2, 4)
    with pytest.warns(DamagedRowsWarning, match="from row 2 on"):
        assert np.shape(read_table(tmp_path).read_rows("run", "aum")) == (2, 4)
    with pytest.warns(DamagedRowsWarning, match="from row 2 on"):
        sinks = open_sinks(parse_targets(tmp_path / "run"), {}, resume=True)
    assert [entry.step for entry in sinks.earlier] == [1, 2]
    sinks.close()
    file.write_bytes(bytes(16) + whole[16:])
    with pytest.raises(CorruptRunError, match="Row 0 of"):
        read_rows(record, "aum")


def test_files_are_synced_at_most_once_per_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, synced = [100.0], []
    monkeypatch.setenv("ROTE_FSYNC", "1")
    monkeypatch.setattr(files.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(os, "fsync", lambda number: synced.append(number))
    run = RunDirectory.create(tmp_path / "run", DESCRIPTION)
    synced.clear()
    counts = []
    for row in range(6):
        run.append(reading(row + 1), row)
        counts.append(len(synced))
        now[0] += 0.4
    together = 1 + 3  # the journal, and three files of rows
    assert counts == [together] * 3 + [2 * together] * 3
    run.sync()
    run.sync()
    assert len(synced) == 3 * together  # what is synced already is not synced again
    run.close()
    assert len(synced) == 3 * together


def test_rows_without_checksums_are_taken_as_they_are(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "run", DESCRIPTION)
    for row, step in enumerate((1, 2)):
        run.append(replace(reading(step), predictions=None, sample_rows={}), row)
    run.close()
    (tmp_path / "run" / "predictions.bin").write_bytes(bytes(range(2)) * 5)
    for rows in (
        read_predictions(read_run(tmp_path / "run")),
        read_table(tmp_path).read_predictions("run"),
    ):
        assert rows is not None
        assert rows.tolist() == [[0, 1, 0, 1, 0], [1, 0, 1, 0, 1]]


def test_a_reading_that_was_filled_in_without_rows_has_no_zeros_for_them(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "run", DESCRIPTION)
    run.append(reading(1), 0)
    run.append(replace(reading(2), predictions=None, sample_rows={}), 1)
    run.append(reading(3), 2)
    run.close()
    table = read_table(tmp_path)
    aum = table.read_rows("run", "aum")
    assert aum is not None
    assert np.isnan(aum).all(axis=1).tolist() == [False, True, False]
    np.testing.assert_array_equal(aum[2], reading(3).sample_rows["aum"].astype(np.float32))
    with pytest.warns(DamagedRowsWarning, match="class 255 is none of its 3"):
        assert table.read_predictions("run") is None


def test_a_row_file_that_was_shortened_is_not_filled_with_zeros(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "run", DESCRIPTION)
    run.append(reading(1), 0)
    (tmp_path / "run" / "aum.bin").write_bytes(b"")
    with pytest.raises(StoreError, match=r"aum\.bin was changed .* has 0 bytes instead of 16"):
        run.append(reading(2), 1)
    run.close()
    assert len(read_run(tmp_path / "run").readings) == 1


WRITER = """
import sys
from itertools import count
from pathlib import Path
import numpy as np
from rote.records import Reading
from rote.store import RunDirectory
rows = {"rows": {"aum": {"dtype": "int64", "shape": [5000]}}}
run = RunDirectory.create(Path(sys.argv[1]), rows)
for row in count():
    values = {"aum": np.full(5000, row)}
    run.append(Reading(row + 1, 2.5, 2.0, 0.5, 0.25, 0.1, sample_rows=values), row)
    print(row, flush=True)
"""


@pytest.mark.filterwarnings("ignore::rote.errors.TornJournalWarning")
@pytest.mark.parametrize("lines", [1, 7, 60])
def test_after_a_kill_every_reading_has_its_whole_row(tmp_path: Path, lines: int) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    for _ in range(lines):
        writer.stdout.readline()
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    record = read_run(tmp_path / "run")
    rows = read_rows(record, "aum")
    assert rows is not None
    assert len(rows) == len(record.readings) >= lines
    np.testing.assert_array_equal(rows, np.repeat(np.arange(len(rows))[:, None], 5000, axis=1))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"../aum": ROWS["aum"]}, r"a plain name other than 'predictions', got '\.\./aum'"),
        ({"predictions": ROWS["aum"]}, "a plain name other than 'predictions', got 'predictions'"),
        ({"aum": {"dtype": "float32"}}, "rows 'aum' to have a dtype and a shape, got"),
        ({"aum": {"dtype": "object", "shape": [4]}}, "rows 'aum' to hold numbers, got"),
        ({"aum": {"dtype": "int8", "shape": [0]}}, "rows 'aum' to hold numbers, got"),
        (["aum"], r"rows per sample to have names, got \['aum'\]"),
    ],
)
def test_impossible_rows_are_refused(tmp_path: Path, rows: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        RunDirectory.create(tmp_path / "run", {"rows": rows})
    assert not (tmp_path / "run").exists()
    RunDirectory.create(tmp_path / "run", {}).close()
    (tmp_path / "run" / "run.json").write_text(json.dumps({"schema": 1, "rows": rows}))
    for read in (
        lambda: read_rows(read_run(tmp_path / "run"), "aum"),
        lambda: read_table(tmp_path).read_rows("run", "aum"),
        lambda: RunDirectory.reopen(tmp_path / "run"),
    ):
        with pytest.raises(CorruptRunError, match=message):
            read()


def test_a_reading_must_fit_the_description(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "run", DESCRIPTION)
    with pytest.raises(InputError, match=r"run\.json does not describe .*'other'"):
        run.append(replace(reading(1), sample_rows={"other": np.zeros(4)}), 0)
    with pytest.raises(InputError, match=r"a row of 'aum' to have shape \(4,\), got \(3,\)"):
        run.append(replace(reading(1), sample_rows={"aum": np.zeros(3)}), 0)
    run.close()
    assert read_run(tmp_path / "run").readings == ()


def test_failed_opening_removes_its_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="names no directory. Write tensorboard:LOGDIR"):
        open_sinks(parse_targets([tmp_path / "run", "tensorboard:"]), DESCRIPTION, resume=False)
    assert list(tmp_path.iterdir()) == []
