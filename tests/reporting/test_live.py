"""A page while runs go on: step by step, and in a real browser."""

import os
from pathlib import Path

import numpy as np
import pytest

from rote.errors import InputError
from rote.reporting import LivePage
from rote.reporting.live import RunProgress
from rote.store import RunDirectory
from tests.reporting.conftest import Open
from tests.reporting.stores import reading, write_store

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("pages")]

STEPS = 12
HELD_TIMER = "window.setInterval = (call, wait) => { window.tick = call; window.wait = wait; };"
"""The page's only timer goes off when a test says so."""


def go_on(run: RunDirectory, step: int) -> None:
    run.append(reading(step, 0.5, (), np.random.default_rng(step), 0.0), step - 1)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Runs with one chart only: it is soon drawn."""
    return write_store(tmp_path / "runs", runs=2, steps=STEPS, metrics=())


def test_live_update_keeps_the_scroll_position(store: Path, tmp_path: Path, visit: Open) -> None:
    path = tmp_path / "page.html"
    live = LivePage(store, path)
    run = RunDirectory.reopen(store / "0")
    assert live.look().progress.running == {store / "0"}
    opened = visit(path, script=HELD_TIMER)
    page = opened.page

    def load_again() -> None:
        page.evaluate(
            "() => { document.documentElement.removeAttribute('data-complete'); tick(); }"
        )
        page.wait_for_selector("html[data-complete]", state="attached")
        assert opened.complaints.pop() == path.as_uri()

    assert "1 of 2 runs finished, 1 in progress" in opened.text("#live")
    assert "run-0 step 12 · ζ" in opened.text("#live li")
    assert page.evaluate("window.wait") >= 5000
    page.select_option("#chosen-run", label="run-1")
    page.click("#theme")
    page.evaluate("document.activeElement.blur()")
    page.evaluate("scrollTo(0, 400)")
    go_on(run, STEPS + 1)
    assert live.look().is_new
    load_again()
    assert "run-0 step 13 · ζ" in opened.text("#live li")
    assert "25 checkpoints" in opened.text(".eyebrow")
    kept = "[scrollY, document.documentElement.dataset.theme]"
    assert page.evaluate(kept) == [400, "dark"]
    assert opened.text("tr.chosen th") == "run-1"
    run.close()
    live.leave()
    load_again()
    assert page.query_selector("#live") is None
    assert page.evaluate("window.tick") is None  # it has come to rest


def test_live_update_waits_while_the_reader_types_or_pauses(
    store: Path, tmp_path: Path, visit: Open
) -> None:
    live = LivePage(store, tmp_path / "page.html")
    with_writer = RunDirectory.reopen(store / "0")
    live.look()
    opened = visit(tmp_path / "page.html", script=HELD_TIMER)
    opened.page.focus("#search")
    opened.page.evaluate("tick()")
    opened.page.click("#pause")
    assert opened.text("#pause") == "Resume"
    assert opened.page.evaluate("performance.navigation.type") == 0  # never loaded again
    with_writer.close()


def test_a_page_without_updates_stops_reloading(store: Path, tmp_path: Path, visit: Open) -> None:
    path = tmp_path / "page.html"
    LivePage(store, path).look()
    os.utime(path, (1e9, 1e9))  # its writer was killed in 2001
    opened = visit(path, script=HELD_TIMER)
    assert "Not updated since 09/" in opened.text("#reloading")
    assert opened.page.evaluate("window.tick") is None


def test_watch_ends_after_two_updates_without_a_run_in_progress(
    store: Path, tmp_path: Path
) -> None:
    live = LivePage(store, tmp_path / "page.html")
    run = RunDirectory.reopen(store / "1")
    assert [live.look().is_over for _ in range(3)] == [False, False, False]
    run.close()
    found = live.look()
    assert (found.is_new, found.is_over) == (True, False)  # the next run may be about to begin
    run = RunDirectory.reopen(store / "0")
    assert not live.look().is_over
    run.close()
    assert [live.look().is_over for _ in range(2)] == [False, True]


def test_runs_that_are_not_there_yet_are_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    live = LivePage(tmp_path / "runs", path)
    found = live.look()
    assert (found.report, found.is_over) == (None, False)
    assert "Directory not found" in (found.trouble or "")
    waiting = path.read_text()
    assert "No run has started yet" in waiting
    assert '<meta http-equiv="refresh" content="5">' in waiting
    with pytest.raises(InputError, match="Directory not found"):
        live.leave()
    assert "refresh" not in path.read_text()
    write_store(tmp_path / "runs", runs=1, metrics=())
    found = live.look(total=3)
    assert found.trouble is None
    assert found.report is not None
    assert "1 of 3 runs finished, 2 not started or interrupted" in path.read_text()
    assert live.leave().path == path
    assert 'id="live"' not in path.read_text()


def test_watch_writes_nothing_without_new_readings(store: Path, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    live = LivePage(store, path, ease=1e6)
    assert live.look().wait > 1000  # writing it again at once would leave the runs no time
    path.write_text("as it was")
    os.utime(path, (0, 0))
    assert not live.look().is_new
    assert path.read_text() == "as it was"
    assert path.stat().st_mtime > 0  # the reader's browser sees that somebody still looks
    assert live.look(total=5).is_new


def test_leaving_the_watch_while_runs_continue_is_reported(store: Path, tmp_path: Path) -> None:
    path, figures = tmp_path / "page.html", tmp_path / "figures"
    live = LivePage(store, path, figures=figures)
    run = RunDirectory.reopen(store / "0")
    assert live.look().report is not None
    assert not figures.exists()  # drawn at the end only
    assert live.leave().figures.files
    text = path.read_text()
    assert "1 of 2 runs finished, 1 in progress" in text
    assert "no longer updated" in text
    assert "data-reload" not in text
    assert "refresh" not in text
    run.close()


def test_the_end_of_runs_in_a_logger_is_unknown(tmp_path: Path) -> None:
    table = tmp_path / "runs.csv"
    lines = ["run,step,susceptibility,train_accuracy"]
    lines += [f"a,{step},{step / 10},{step / 20}" for step in range(1, 8)]
    table.write_text("\n".join(lines))
    live = LivePage(f"csv:{table}", tmp_path / "page.html")
    found = [live.look() for _ in range(3)]
    assert [look.is_new for look in found] == [True] * 3  # it may have changed
    assert not any(look.is_over for look in found)
    assert found[0].progress.total is None


def test_an_overview_of_groups_loads_itself_again_too(store: Path, tmp_path: Path) -> None:
    live = LivePage(store, tmp_path / "page.html", group_by="seed")
    live.look(total=4)
    for file in tmp_path.glob("*.html"):
        assert 'http-equiv="refresh" content="5"' in file.read_text()
    live.leave()
    assert not any("refresh" in file.read_text() for file in tmp_path.glob("*.html"))


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        (RunProgress(5, total=None), "The number of runs is unknown"),
        (RunProgress(5, total=1, finished=1), "1 of 1 run finished"),
        (RunProgress(5, total=4, finished=1, failed=2), "1 of 4 runs finished, 2 failed, 1 not"),
        (RunProgress(5, total=2, running=frozenset([Path("a")])), "0 of 2 runs finished, 1 in"),
    ],
)
def test_progress_in_words(progress: RunProgress, words: str) -> None:
    assert progress.sentence.startswith(words)
