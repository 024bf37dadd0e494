"""``read_table`` says what ``read_run`` says, only faster."""

import json
import math
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

import rote
from rote.errors import (
    CorruptRunError,
    DamagedRowsWarning,
    InputError,
    OddJournalWarning,
    TornJournalWarning,
    UnreadableRunWarning,
)
from rote.records import Reading
from rote.store import (
    RunDirectory,
    RunTable,
    journal_frame,
    read_predictions,
    read_run,
    read_table,
)
from rote.store.journal import (
    FileSoFar,
    encode_line,
    encode_reading,
    encode_resume,
    summarize_file,
)

pytestmark = pytest.mark.slow

NAMES = ("train_accuracy", "test_accuracy", "clean_accuracy", "noisy_accuracy")


def reading(step: int, **metrics: float) -> Reading:
    return Reading(step, 2.5, 2.0, 0.5, 0.25 * step, 0.1, seconds=0.01, metrics=metrics)


def line(entry: Reading) -> bytes:
    return json.dumps(encode_reading(entry), separators=(",", ":")).encode() + b"\n"


def mark(step: int) -> bytes:
    return json.dumps(encode_resume(step), separators=(",", ":")).encode() + b"\n"


def seal(journal: bytes) -> bytes:
    """Give lines the rows and checksums that a writer would; what is cut off stays as it is."""
    data, so_far = b"", FileSoFar()
    steps: list[Any] = []
    for raw in journal.splitlines():
        try:
            values = json.loads(raw)
        except ValueError:
            data += raw + b"\n"
            so_far = summarize_file(data)
            continue
        if values.get("kind") == "resume":
            steps = [step for step in steps if step <= values.get("step", 0)]
        elif values.get("kind") == "reading":
            values["row"] = len(steps)
            steps.append(values.get("step"))
        written, so_far = encode_line(values, so_far)
        data += written
    return data if journal.endswith(b"\n") else data[:-1]


def write_run(path: Path, journal: bytes, **description: Any) -> Path:
    return write_raw(path, seal(journal), **description)


def write_raw(path: Path, journal: bytes, **description: Any) -> Path:
    path.mkdir(parents=True)
    (path / "run.json").write_text(json.dumps({"schema": 1, **description}))
    (path / "journal.jsonl").write_bytes(journal)
    return path


def finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def expected_rows(path: Path) -> list[dict[str, Any]]:
    """The oracle: what ``read_run`` reads, value by value."""
    rows = []
    for number, entry in enumerate(read_run(path).readings):
        values = entry.to_dict()
        metrics = values.pop("metrics")
        values = {"row": number} | values | metrics
        assert all(isinstance(v, int | float | None) for k, v in values.items() if k != "flags")
        assert isinstance(values["step"], int)
        rows.append({name: finite(value) for name, value in values.items()})
    return rows


def found_rows(table: RunTable, run: str) -> list[dict[str, Any]]:
    rows = [row for row in table.frame.to_dicts() if row.pop("run") == run]
    for row in rows:
        row["seconds"] = 0.0 if row["seconds"] is None else row["seconds"]
        row["flags"] = row["flags"] or []
    return rows


def without_absent(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if v is not None} for row in rows]


def assert_same(paths: list[Path], table: RunTable) -> None:
    names = {path: name for name, path in table.paths.items()}
    assert set(names) == set(paths)
    for path in names:
        assert without_absent(found_rows(table, names[path])) == without_absent(expected_rows(path))


numbers = st.floats(allow_nan=True, allow_infinity=True, width=64)
flags = st.lists(st.sampled_from(["non_finite", "diverging", "dominated", "diverging_plain"]))


@st.composite
def readings(draw: st.DrawFn, step: int) -> Reading:
    plain = st.none() | numbers
    metrics = {name: draw(numbers) for name in draw(st.sets(st.sampled_from(NAMES)))}
    return Reading(
        step,
        *[draw(numbers) for _ in range(5)],
        *[draw(plain) for _ in range(5)],
        seconds=0.5,
        flags=tuple(draw(flags)),
        metrics=metrics,
    )


@st.composite
def journals(draw: st.DrawFn) -> bytes:
    """Readings, resumes, and cuts where a kill can make them."""
    data, step = b"", 0
    for _ in range(draw(st.integers(0, 12))):
        if draw(st.integers(0, 5)) == 0:
            step = draw(st.integers(0, step))
            for _ in range(draw(st.integers(0, 2))):
                truncated = line(draw(readings(step + 1)))
                data += truncated[: draw(st.integers(1, len(truncated) - 2))] + b"\n"
            data += mark(step)
        step += draw(st.integers(1, 3))
        data += line(draw(readings(step)))
    cut = draw(st.integers(0, 3))
    if cut == 1 and data:
        return data[:-1]
    return data + line(draw(readings(step + 1)))[:40] if cut == 2 else data


@settings(deadline=None, max_examples=60)
@given(st.lists(journals(), min_size=1, max_size=4), st.sampled_from([200, 3_000, 1 << 23]))
def test_the_table_is_what_read_run_reads(
    tmp_path_factory: pytest.TempPathFactory, data: list[bytes], batch: int
) -> None:
    root = tmp_path_factory.mktemp("store")
    paths = [write_run(root / f"run{i}", entry) for i, entry in enumerate(data)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal_frame, "_BATCH", batch)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            table = read_table(root)
        with warnings.catch_warnings(record=True) as expected:
            warnings.simplefilter("always")
            assert_same(paths, table)
    assert {str(w.message) for w in found} == {str(w.message) for w in expected}


@st.composite
def written_journals(draw: st.DrawFn) -> bytes:
    """As rote writes them: checked lines, most of one shape, with names that are hard to take."""
    names = st.sampled_from([*NAMES, "a,b", "a:b", "é", "1e5", 'q"', "x y", "#1", "e", "loss_1"])
    usual, data, step = draw(st.lists(names, unique=True, max_size=4)), b"", 0
    so_far = FileSoFar()
    for row in range(draw(st.integers(0, 7))):
        step += draw(st.integers(1, 3))
        metrics = {name: draw(numbers | st.integers(-9, 10**20)) for name in usual}
        if draw(st.integers(0, 9)) == 0:
            metrics |= {draw(names): 0.5}
        entry = Reading(
            step,
            *[draw(numbers) for _ in range(5)],
            flags=("diverging", "dominated") if draw(st.integers(0, 9)) == 0 else (),
            metrics=metrics,
        )
        line = encode_reading(entry) | {"row": row}
        if draw(st.integers(0, 9)) == 0:
            line = encode_resume(step := draw(st.integers(0, step)))
        written, so_far = encode_line(line, so_far)
        data += written
    return data


@settings(deadline=None, max_examples=80)
@given(st.lists(written_journals(), min_size=1, max_size=6), st.sampled_from([3_000, 1 << 23]))
def test_lines_of_one_shape_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, data: list[bytes], batch: int
) -> None:
    root = tmp_path_factory.mktemp("store")
    paths = [write_raw(root / f"run{i}", entry) for i, entry in enumerate(data)]
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", OddJournalWarning)
        patch.setattr(journal_frame, "_BATCH", batch)
        table = read_table(root)
        runs = table.frame["run"].to_list()
        assert runs == sorted(runs)
        for path in paths:
            found = found_rows(table, path.name)
            rows = list(read_run(path).rows)
            assert [entry.pop("row") for entry in found] == rows
            expected = expected_rows(path)
            for entry in expected:
                entry.pop("row")
            assert without_absent(found) == without_absent(expected)


def test_a_store_as_rote_writes_it_is_read_as_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, metrics in (("a", {"loss": 0.1}), ("b", {"accuracy": 0.5}), ("c", {"loss": 0.2})):
        run = RunDirectory.create(tmp_path / name, {})
        for step in (1, 2, 3):
            run.append(reading(step, **metrics), step - 1)
        run.close()
    monkeypatch.setattr(journal_frame, "_read_as_lines", None)
    assert_same([tmp_path / name for name in "abc"], read_table(tmp_path))


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_a_damaged_byte_is_seen_where_read_run_sees_it(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    lines = (line(reading(step, train_accuracy=0.5)) for step in (1, 2, 3))
    journal = bytearray(seal(b"".join(lines)))
    journal[data.draw(st.integers(0, len(journal) - 1))] = data.draw(st.integers(0, 255))
    path = write_raw(tmp_path_factory.mktemp("store") / "run", bytes(journal))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = expected_rows(path)
        except (CorruptRunError, TypeError, KeyError, AssertionError):
            with pytest.raises(CorruptRunError):
                read_table(path)
        else:
            table = read_table(path)
            assert without_absent(found_rows(table, "run")) == without_absent(expected)


def test_metrics_that_come_late_or_only_sometimes_are_columns(tmp_path: Path) -> None:
    sometimes = b"".join(
        line(reading(step, **({"test_accuracy": 0.75} if step % 3 == 0 else {}), loss=0.1))
        for step in range(1, 9)
    )
    other = b"".join(line(reading(step, accuracy=0.5)) for step in range(1, 4))
    paths = [write_run(tmp_path / "a", sometimes), write_run(tmp_path / "b", other)]
    table = read_table(tmp_path)
    assert_same(paths, table)
    assert table.frame.columns[-3:] == ["accuracy", "loss", "test_accuracy"]


def test_readings_with_different_keys_are_all_kept(tmp_path: Path) -> None:
    journal = line(reading(1, a=0.1)) + line(reading(2, b=0.2)) + line(reading(3, c=math.nan))
    path = write_run(tmp_path / "run", journal)
    assert_same([path], read_table(path))
    assert read_table(path).frame["b"].to_list() == [None, 0.2, None]


def test_a_truncated_line_in_a_long_journal_is_skipped_with_its_number(tmp_path: Path) -> None:
    lines = [line(reading(step)) for step in range(1, 1_001)]
    path = write_run(tmp_path / "run", b"".join(lines) + lines[0][:30] + b"\n" + mark(990))
    with pytest.warns(TornJournalWarning, match=r"Line 1001 of .*journal\.jsonl was cut off"):
        table = read_table(path)
    assert table.frame["step"].to_list() == list(range(1, 991))


def test_damage_in_the_middle_is_refused(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", line(reading(1)) + b"{oops\n" + line(reading(2)))
    with pytest.raises(CorruptRunError, match=r"Line 2 of .* cut off.* delete that line"):
        read_table(path)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b'{"schema":2,"kind":"reading","step":1}\n', r"schema 1 in line 2 of .*, got 2"),
        (b'{"kind":"reading","step":1}\n', r"schema 1 in line 2 of .*, got None"),
        (b'{"schema":1,"kind":"reading"}\n', "line 2 of .* has no integer step: None"),
        (b'{"schema":1,"kind":"resume"}\n', "line 2 of .* has no integer step: None"),
        (b'{"schema":1,"kind":"reading","step":1.5}\n', "line 2 .* integer step: 1.5"),
        (b'{"schema":1,"kind":"reading","step":2,"a":"x"}\n', "'a' in line 2 .* number, got 'x'"),
    ],
)
def test_lines_with_impossible_values_are_refused(tmp_path: Path, raw: bytes, message: str) -> None:
    path = write_run(tmp_path / "run", line(reading(1)) + raw)
    with pytest.raises(CorruptRunError, match=message):
        read_table(path)


@pytest.mark.parametrize("end", ["", ',"row":1', ',"row":1,"#":"00000002.0.0.0"'])
def test_lines_without_a_checksum_are_refused(tmp_path: Path, end: str) -> None:
    raw = f'{{"schema":1,"kind":"reading","step":2{end}}}\n'.encode()
    path = write_raw(tmp_path / "run", seal(line(reading(1))) + raw)
    for read in (read_run, read_table):
        with pytest.raises(CorruptRunError, match="Line 2 of .* does not fit its checksum"):
            read(path)


def test_kinds_of_a_later_version_are_passed_over(tmp_path: Path) -> None:
    journal = line(reading(1)) + b'{"schema":1,"kind":"note","text":"hello"}\n' + line(reading(2))
    path = write_run(tmp_path / "run", journal)
    with pytest.warns(OddJournalWarning, match="has a line of an unknown kind, 'note'; it is skip"):
        assert_same([path], read_table(path))


def test_python_floats_come_back_bit_for_bit(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal(500) * 10.0 ** np.arange(-250, 250)
    journal = b"".join(line(reading(i + 1, a=float(v))) for i, v in enumerate(values))
    found = read_table(write_run(tmp_path / "run", journal)).frame["a"]
    np.testing.assert_array_equal(found.to_numpy(), values)


def test_runs_are_found_anywhere_below_once_and_ordered_by_name(tmp_path: Path) -> None:
    for place, name in (("x/deep/one", "zebra"), ("x/two", "ant"), ("y/three", "bee")):
        write_run(tmp_path / place, line(reading(1)), name=name)
    (tmp_path / "x/two/checkpoints").mkdir()
    table = read_table([tmp_path / "x", tmp_path / "y/three", str(tmp_path)])
    assert list(table.paths) == table.frame["run"].to_list() == ["ant", "bee", "zebra"]
    assert [entry["name"] for entry in table.descriptions.values()] == list(table.paths)


def test_equal_names_are_distinguished_by_the_end_of_the_path(tmp_path: Path) -> None:
    for place in ("one/seed0", "two/seed0", "two/seed1"):
        write_run(tmp_path / place, b"", name="cnn")
    write_run(tmp_path / "alone", b"")
    names = set(read_table(tmp_path).paths)
    assert names == {"cnn (one/seed0)", "cnn (two/seed0)", "cnn (seed1)", "alone"}


def test_a_run_without_readings_has_no_rows(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", b"")
    (run / "journal.jsonl").unlink()
    table = read_table(tmp_path)
    assert len(table.frame) == 0
    assert list(table.paths) == ["run"]
    assert table.frame.columns[:4] == ["run", "row", "step", "loss_before"]


def test_no_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"No runs in .*run"):
        read_table(tmp_path)
    with pytest.raises(InputError, match="Check the path"):
        read_table([tmp_path / "nowhere"])


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        (3, "`runs` to be a directory, a source such as 'mlflow:EXPERIMENT', or a list .* got 3"),
        (None, "or a list of them, got None"),
        ([3], "or a list of them, got 3"),
        ([], "No runs given"),
    ],
)
def test_directory_without_a_run_is_refused(runs: Any, message: str) -> None:
    for read in (read_table, rote.select, rote.plot.regions):
        with pytest.raises(InputError, match=message):
            read(runs)


def test_tracker_as_runs_names_its_directory() -> None:
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracker = rote.track(model, optimizer, inputs=torch.randn(8, 4), num_classes=3)
    with pytest.raises(InputError, match="got Tracker. Give the directory .*: its `save_to`"):
        rote.select(tracker)  # type: ignore[arg-type]


def test_a_file_is_no_directory_of_runs(tmp_path: Path) -> None:
    table, other = tmp_path / "ok.csv", tmp_path / "ok.txt"
    table.write_text("step,susceptibility\n1,0.5\n")
    other.write_text("")
    with pytest.raises(InputError, match=r"is a file, .*Write csv:.*ok\.csv to read it"):
        read_table(table)
    with pytest.raises(InputError, match=r"ok\.txt is a file, not a directory with runs\.$"):
        read_table(str(other))


def test_a_damaged_description_is_an_error(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", b"")
    (run / "run.json").write_text("{")
    with pytest.raises(CorruptRunError, match=r"run\.json does not describe a run"):
        read_table(tmp_path)


def test_predictions_are_those_of_read_predictions(tmp_path: Path) -> None:
    description = {"name": "run", "num_classes": 300, "holdout": {"predictions": [5, 2]}}
    run = RunDirectory.create(tmp_path / "run", description)
    rows = np.random.default_rng(0).integers(300, size=(4, 5, 2))
    for row, predictions in enumerate(rows):
        entry = Reading(row + 1, 1.0, 1.0, 0.0, 0.0, 0.0, predictions=predictions)
        run.append(entry, row)
    run.resume_after(3)
    run.close()
    table = read_table(tmp_path)
    found = table.read_predictions("run")
    assert found is not None
    expected = read_predictions(read_run(tmp_path / "run"))
    np.testing.assert_array_equal(found[table.frame["row"].to_numpy()], expected)
    np.testing.assert_array_equal(found[:3], rows[:3])


def test_missing_predictions_are_none(tmp_path: Path) -> None:
    write_run(tmp_path / "none", b"", num_classes=3, holdout=None)
    empty = write_run(tmp_path / "empty", b"", num_classes=3, holdout={"predictions": [4]})
    (empty / "predictions.bin").touch()
    write_run(tmp_path / "lost", b"", num_classes=3, holdout={"predictions": [4]})
    table = read_table(tmp_path)
    assert [table.read_predictions(name) for name in ("none", "empty", "lost", "unknown")] == [
        None
    ] * 4


def test_one_bad_run_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    for name in ("good", "journal", "description", "lost", "rows"):
        write_run(tmp_path / name, line(reading(1)), name=name)
    (tmp_path / "journal/journal.jsonl").write_bytes(b"[]\n" + seal(line(reading(1))))
    (tmp_path / "description/run.json").write_text("{")
    (tmp_path / "lost/run.json").unlink()
    (tmp_path / "rows/run.json").write_text('{"schema": 1, "rows": 3}')
    with pytest.warns(UnreadableRunWarning) as said:
        table = read_table(tmp_path)
    assert list(table.paths) == ["good"]
    assert table.frame["run"].to_list() == ["good"]
    bad = {str(tmp_path / name) for name in ("journal", "description", "lost", "rows")}
    assert set(table.unreadable) == bad
    assert all(any(path in str(entry.message) for entry in said) for path in bad)
    shown = rote.select(table, "min:susceptibility").warnings
    assert sum(text.startswith("Left out /") for text in shown) == 4
    for path in bad:
        with pytest.raises(CorruptRunError):
            read_table(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_without_read_permission_is_named(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_run(tmp_path / name, line(reading(1)))
    (tmp_path / "b").chmod(0)
    with pytest.warns(UnreadableRunWarning, match="Left out .*/b: .*Permission denied"):
        assert list(read_table(tmp_path).paths) == ["a"]
    (tmp_path / "b").chmod(0o755)


def test_an_unreadable_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b/inside"):
        write_run(tmp_path / name, line(reading(1)))
    scan = os.scandir

    def refusing(path: str) -> Any:
        if str(path).endswith("/b"):
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.warns(UnreadableRunWarning, match="Left out .*/b: .*Permission denied"):
        assert list(read_table(tmp_path).paths) == ["a"]


def test_predictions_of_unknown_classes_do_not_vote(tmp_path: Path) -> None:
    description = {"name": "run", "num_classes": 3, "holdout": {"predictions": [4]}}
    run = RunDirectory.create(tmp_path / "run", description)
    for row in range(3):
        run.append(Reading(row + 1, 1.0, 1.0, 0, 0, 0), row)  # nobody knows the rows' checksums
    run.resume_after(2)
    run.close()
    file = tmp_path / "run" / "predictions.bin"
    file.write_bytes(bytes([0] * 8 + [9] * 4))  # what does not count may be anything
    assert read_table(tmp_path).read_predictions("run") is not None
    file.write_bytes(bytes([0] * 7 + [3] + [0] * 4))
    table = read_table(tmp_path)
    with pytest.warns(DamagedRowsWarning, match=r"of 'run': class 3 is none of its 3\. Restore"):
        assert table.read_predictions("run") is None
    assert table.read_predictions("run") is None
    with pytest.raises(CorruptRunError, match="to hold classes below 3, got 3"):
        read_predictions(read_run(tmp_path / "run"))


def test_distinct_metrics_per_reading_do_not_need_quadratic_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_frame, "_MOST_METRICS", 10)
    for name in ("a", "b"):
        lines = [line(reading(i, accuracy=0.5, **{f"m{name}{i:03}": 1.0})) for i in range(1, 51)]
        write_run(tmp_path / name, b"".join(lines))
    with pytest.warns(OddJournalWarning, match="more than 10 metrics; those that most readings"):
        frame = read_table(tmp_path).frame
    assert frame.width == len(journal_frame.READING_COLUMNS) + 2 + 10
    assert frame["accuracy"].null_count() == 0
    assert len(read_run(tmp_path / "a").readings[49].metrics) == 2


def test_reading_needs_no_torch_and_importing_no_polars() -> None:
    code = (
        "import sys, rote.store.table\n"
        "assert not {'torch', 'polars', 'scipy'} & set(sys.modules)\n"
        "try: rote.store.table.read_table('/nowhere')\n"
        "except ValueError: pass\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
