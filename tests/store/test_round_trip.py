"""What is logged is read back as from rote's own store: same numbers, same pick, same warnings."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal

import rote
from rote.errors import LoggerWarning, TornJournalWarning
from rote.records import Reading
from rote.selection import Selection
from rote.store import Sinks, open_sinks, parse_targets, read_table
from tests.loggers import DESCRIPTION, log, new_mlflow_store, readings

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("loggers")]

pytest.importorskip("mlflow", reason="needs rote[mlflow]")
pytest.importorskip("tensorboard", reason="needs rote[tensorboard]")

RUNS = 3
LOGGERS = ("mlflow", "tensorboard")


def said(selection: Selection) -> dict[str, Any]:
    """What is printed, without where the run lies: a logger has no directory."""
    told = selection.to_json()
    nowhere = {"path": None, "file": None}
    return told | {"pick": told["pick"] | nowhere}


@dataclass(frozen=True)
class Sweep:
    """Runs in rote's own store, and the same in every logger."""

    own: Path
    sources: dict[str, str]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    root = tmp_path_factory.mktemp("sweep")
    uri = new_mlflow_store(root)
    sources = {"mlflow": f"mlflow:digits@{uri}", "tensorboard": f"tensorboard:{root}/tb"}
    for seed in range(RUNS):
        targets = [*sources.values(), root / "own" / f"run{seed}"]
        log(targets, readings(seed), name=f"run {seed}")
    return Sweep(root / "own", sources)


@pytest.mark.parametrize("logger", LOGGERS)
def test_every_number_comes_back_bit_for_bit(sweep: Sweep, logger: str) -> None:
    own, theirs = read_table(sweep.own), read_table(sweep.sources[logger])
    assert len(own.frame) == RUNS * 12
    assert_frame_equal(theirs.frame, own.frame, check_exact=True)
    assert own.frame["flags"].list.len().sum() > 0
    assert own.frame["loss_before"].null_count() == 1
    for run, description in own.descriptions.items():
        assert dict(theirs.descriptions[run]) | {"schema": 1} == description


@pytest.mark.parametrize("logger", LOGGERS)
@pytest.mark.parametrize(
    ("rule", "column"),
    [
        ("regions", "susceptibility"),
        ("staged", "susceptibility_relative"),
        ("filter", "susceptibility_plain"),
        ("noisy-validation", "susceptibility"),
        ("oracle", "susceptibility"),
    ],
)
def test_selection_is_the_same(sweep: Sweep, logger: str, rule: str, column: str) -> None:
    own = rote.select(sweep.own, rule=rule, column=column)
    theirs = rote.select(sweep.sources[logger], rule=rule, column=column)
    assert said(theirs) == said(own)
    assert (theirs.reasons, theirs.warnings) == (own.reasons, own.warnings)
    assert_frame_equal(theirs.table, own.table, check_exact=True)


def test_the_selection_above_warns_about_flags(sweep: Sweep) -> None:
    warnings = rote.select(sweep.sources["mlflow"]).warnings
    assert any("`dominated`" in warning for warning in warnings)


def test_all_sources_in_one_call_have_runs_of_different_names(sweep: Sweep) -> None:
    table = read_table([sweep.own, *sweep.sources.values()])
    assert len(table.frame) == 3 * RUNS * 12
    assert len(set(table.frame["run"])) == len(table.descriptions) == 3 * RUNS
    assert table.frame["run"].is_sorted()
    assert "run 0 (run0)" in table.descriptions


def test_consensus_needs_predictions_which_loggers_do_not_keep(sweep: Sweep) -> None:
    with pytest.raises(rote.InputError, match="2 runs with predictions on the same holdout"):
        rote.select(sweep.sources["mlflow"], rule="consensus")


def reopened(target: str, name: str) -> Sinks:
    return open_sinks(parse_targets(target), {**DESCRIPTION, "name": name}, resume=True)


@pytest.mark.parametrize("logger", ["mlflow", "tensorboard"])
def test_a_resumed_run_reads_like_an_uninterrupted_one(tmp_path: Path, logger: str) -> None:
    uri = new_mlflow_store(tmp_path)
    target = {"mlflow": f"mlflow:e@{uri}", "tensorboard": f"tensorboard:{tmp_path}/tb"}[logger]
    log(tmp_path / "own" / "run", readings(1), name="run")
    wrong: list[Reading] = readings(5)  # taken before the kill, and to be taken again
    log(target, [*readings(1)[:4], *wrong[4:9]], name="run")
    sinks = reopened(target, "run")
    assert [reading.step for reading in sinks.earlier] == list(range(1, 10))
    sinks.resume_from(readings(1)[:4])
    for row, reading in enumerate(readings(1)[4:6], start=4):
        sinks.append(reading, row)
    sinks.close()
    sinks = reopened(target, "run")
    assert [reading.step for reading in sinks.earlier] == list(range(1, 7))
    assert [r.flags for r in sinks.earlier] == [r.flags for r in readings(1)[:6]]
    sinks.resume_from(sinks.earlier)
    for row, reading in enumerate(readings(1)[6:], start=6):
        sinks.append(reading, row)
    sinks.close()
    own, theirs = read_table(tmp_path / "own"), read_table(target)
    assert_frame_equal(theirs.frame, own.frame, check_exact=True)
    assert said(rote.select(target, "regions")) == said(rote.select(tmp_path / "own", "regions"))


def test_readings_missed_by_a_logger_are_added_on_resume(tmp_path: Path) -> None:
    target = f"tensorboard:{tmp_path}/tb"
    found = readings(0)
    log(target, [*found[:3], *found[5:8]], name="run")  # two readings never arrived
    sinks = reopened(target, "run")
    sinks.resume_from(found)
    sinks.close()
    log(tmp_path / "own", found, name="run")
    assert_frame_equal(read_table(target).frame, read_table(tmp_path / "own").frame)


def test_a_truncated_event_file_ends_where_it_was_cut(tmp_path: Path) -> None:
    log(f"tensorboard:{tmp_path}", readings(0))
    (file,) = tmp_path.iterdir()
    data = file.read_bytes()
    file.write_bytes(data[:-7])
    with pytest.warns(TornJournalWarning, match=r"The last record of .* is cut off; it is skipped"):
        table = read_table(f"tensorboard:{tmp_path}")
    assert table.frame["step"].to_list() == list(range(1, 12))
    middle = len(data) // 2
    file.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
    with pytest.raises(rote.RoteError, match="Event file .* is damaged: .*checksum"):
        read_table(f"tensorboard:{tmp_path}")


def test_tensorboard_itself_shows_the_scalars_and_drops_the_void_ones(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log(f"tensorboard:{tmp_path}", readings(0)[:6])
    sinks = open_sinks(parse_targets(f"tensorboard:{tmp_path}"), DESCRIPTION, resume=True)
    sinks.resume_from(readings(0)[:2])
    sinks.append(readings(3)[2], 2)
    sinks.close()
    shown = EventAccumulator(str(tmp_path))
    shown.Reload()
    points = shown.Scalars("susceptibility")
    expected = [*readings(0)[:2], readings(3)[2]]
    assert [point.step for point in points] == [1, 2, 3]
    assert [point.value for point in points] == pytest.approx(
        [reading.susceptibility for reading in expected], rel=1e-6
    )


def test_clock_set_back_does_not_restore_voided_readings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"tensorboard:{tmp_path}"
    log(place, readings(0)[:6])
    now = time.time_ns()
    for back in (3_600, 7_200):
        monkeypatch.setattr(time, "time_ns", lambda back=back: now - back * 1_000_000_000)
        sinks = open_sinks(parse_targets(place), DESCRIPTION, resume=True)
        sinks.resume_from(readings(0)[:2])
        sinks.append(readings(back)[2], 2)
        sinks.close()
        frame = read_table(place).frame
        assert frame["step"].to_list() == [1, 2, 3]
        assert frame["drop"][2] == readings(back)[2].drop


def test_names_that_mlflow_refuses_remain_distinct(tmp_path: Path) -> None:
    names = ("a*b", "a?b", "a_b", "a_u002a_b", "_u002a*", "loss_uface_x", "é/:. -")
    values = {name: float(at) for at, name in enumerate(names)}
    place = f"mlflow:names@{new_mlflow_store(tmp_path)}"
    log(place, [replace(readings(0)[0], metrics=values)])
    frame = read_table(place).frame
    assert {name: frame[name][0] for name in names} == values


def test_removal_of_an_event_file_is_noticed(tmp_path: Path) -> None:
    sinks = open_sinks(parse_targets(f"tensorboard:{tmp_path / 'run'}"), DESCRIPTION, resume=False)
    (file,) = (tmp_path / "run").iterdir()
    file.rename(tmp_path / "away")
    with pytest.warns(LoggerWarning, match="removed or replaced .*No such"):
        sinks.append(readings(0)[0], 0)
    (tmp_path / "away").rename(file)
    sinks.append(readings(0)[1], 1)
    sinks.close()
    assert read_table(f"tensorboard:{tmp_path}").frame["step"].to_list() == [1, 2]
