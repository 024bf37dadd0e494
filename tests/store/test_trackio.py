"""Readings in Trackio, written and read back with the real package."""

from pathlib import Path
from typing import Any

import pytest

from rote.errors import InputError, RunExistsError
from tests.loggers import log, readings

pytest.importorskip("trackio", reason="needs trackio, which does not install with our pins")

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep everything in a folder, without a network."""
    from trackio import sqlite_storage, utils

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for module in (sqlite_storage, utils):
        monkeypatch.setattr(module, "TRACKIO_DIR", tmp_path, raising=False)


def rows_of(project: str, run: str) -> list[dict[str, Any]]:
    from trackio.sqlite_storage import SQLiteStorage

    return list(SQLiteStorage.get_logs(project, run))


def test_a_separate_logger_run_holds_every_reading() -> None:
    expected = readings(0)
    log("trackio:digits", expected, "first")
    found = rows_of("digits", "first")
    assert [row["rote/step"] for row in found] == [reading.step for reading in expected]
    for row, reading in zip(found, expected, strict=True):
        assert row["susceptibility"] == pytest.approx(reading.susceptibility, rel=1e-12)
        assert row["train_accuracy"] == pytest.approx(reading.metrics["train_accuracy"])


def test_the_open_run_is_not_closed() -> None:
    import trackio
    from trackio import context_vars

    run = trackio.init(project="mine", name="open", embed=False)
    try:
        log("trackio:other", readings(0, 2), "beside")
        assert context_vars.current_run.get() is run
        log("trackio:", readings(0, 3))
        trackio.log({"loss": 1.0})
        with pytest.raises(RunExistsError, match="Trackio run open"):
            log("trackio:", readings(0, 1))
    finally:
        trackio.finish()
    found = rows_of("mine", "open")
    assert [row["rote/step"] for row in found if "rote/step" in row] == [1, 2, 3]
    assert any(row.get("loss") == 1.0 for row in found)
    assert len(rows_of("other", "beside")) == 2


def test_trackio_runs_that_cannot_be_opened_are_named() -> None:
    with pytest.raises(InputError, match="No Trackio run is open"):
        log("trackio:", readings(0, 1))
    with pytest.raises(InputError, match=r"trackio\.init\(name=.*resume='must'"):
        log("trackio:digits", readings(0, 1), "first", resume=True)
