"""Charts of one's own, from the command line onto the page; and charts of the runs' own columns."""

import doctest
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rote
from rote.errors import InputError
from rote.reporting import charts as chart_folder, contents, report
from rote.reporting.charts import CHARTS
from rote.selection import Candidates, candidates
from tests.reporting.conftest import Open
from tests.reporting.stores import TRUTH, write_store

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("pages")]

ROTE = Path(sys.executable).parent / "rote"

CHART = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Record:
    points: tuple

class Losses:
    name, title = "losses", "My <losses>"

    def record(self, contents):
        pairs = zip(contents.candidates.step.tolist(), contents.candidates.zeta.tolist())
        return Record(tuple(pairs))

    def draw(self, record, frame):
        import altair as alt
        values = [{"x": step, "y": 2 * zeta} for step, zeta in record.points]
        chart = alt.Chart(alt.InlineData(values=values), width=frame.width)
        return chart.mark_square().encode(x="x:Q", y="y:Q")

class Refusing(Losses):
    name, title = "refusing", "Not today"

    def record(self, contents):
        from rote.errors import InputError
        raise InputError("Expected `runs` to have a moon, got none.")

class Namesake(Losses):
    name = "regions"
"""


def test_user_charts_are_added_from_the_command_line(tmp_path: Path, visit: Open) -> None:
    store = write_store(tmp_path / "runs")
    (tmp_path / "my_charts.py").write_text(CHART)
    page, figures = tmp_path / "page.html", tmp_path / "figures"
    command: list[str | Path] = [
        ROTE,
        "report",
        store,
        "-o",
        page,
        "--figures",
        figures,
        "--rule",
        "max:drop",
    ]
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}

    def run(*charts: str) -> subprocess.CompletedProcess[str]:
        words = [word for chart in charts for word in ("--chart", f"my_charts:{chart}")]
        return subprocess.run(
            [*command, *words], capture_output=True, text=True, check=False, env=environment
        )

    done = run("Namesake")
    assert done.returncode == 2
    assert "and not taken, got 'regions'" in done.stderr
    assert not page.exists()
    done = run("Losses", "Refusing")
    assert done.returncode == 0, done.stderr
    assert (figures / "losses.svg").is_file()
    assert "No figure of refusing: Expected `runs` to have a moon" in done.stderr
    opened = visit(page)
    assert opened.text("#losses-title") == "My <losses>"
    points = opened.page.query_selector_all("#chart-losses .mark-symbol path")
    assert len(points) == 6 * 12
    assert "to have a moon, got none" in opened.text("section[aria-labelledby=refusing-title]")
    assert "rule max:drop" in opened.text(".eyebrow")
    assert "--rule max:drop" in opened.text("#same-pick")


def test_every_file_of_the_folder_is_a_chart() -> None:
    folder = Path(chart_folder.__file__).parent
    assert set(CHARTS) == {path.stem for path in folder.glob("*.py")} - {"__init__"}
    orders: list[int] = [chart.order for chart in vars(chart_folder)["CHARTS"].values()]
    assert orders == sorted(orders)


def test_examples_of_the_docs_run() -> None:
    page = Path(__file__).parents[2] / "docs" / "report.md"
    failures, tried = doctest.testfile(str(page), module_relative=False)
    assert tried > 3
    assert failures == 0


def describe(store: Path, **columns: dict[str, str]) -> Path:
    for path in store.glob("*/run.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"columns": columns}))
    return store


def test_signals_that_runs_describe_are_drawn_over_training(tmp_path: Path, visit: Open) -> None:
    store = write_store(tmp_path / "runs", metrics=(*TRUTH, "gwa", "f1", "other"))
    gwa = {"label": "gradient <alignment>", "kind": "signal", "better": "higher"}
    describe(store, gwa=gwa, f1={"label": "F1", "kind": "signal", "unit": "share"})
    report(store, tmp_path / "page.html")
    opened = visit(tmp_path / "page.html")
    captions = opened.page.eval_on_selector_all("figcaption", "all => all.map(c => c.textContent)")
    assert "Gradient <alignment>" in captions
    assert "F1" in captions
    assert "other" not in captions
    places = opened.page.eval_on_selector_all(".chart", "all => all.map(c => c.id)")
    drawn = [place for place in places if place.startswith("chart-m")]
    assert len(drawn) == 2
    for place in drawn:
        lines = opened.page.query_selector_all(f"#{place} .mark-line path")
        assert len(lines) == 6 + 1  # the run of the pick again, in blue
    assert sum("%" in opened.text(f"#{place} svg") for place in drawn) == 1
    ring = opened.page.locator(f"#{drawn[0]} .mark-symbol path").first
    opened.point_at(ring)
    assert opened.text("#hint caption") in opened.text("h1")  # the pick
    settings = opened.text("section[aria-labelledby=runs-title]")
    assert "columns.gwa" not in settings


def test_any_recorded_column_can_be_plotted(tmp_path: Path) -> None:
    store = write_store(tmp_path, metrics=(*TRUTH, "other"))
    chart = rote.plot.tracking(store, columns=["other", "loss_before"]).to_dict()
    titles = [part["layer"][0]["encoding"]["y"]["title"] for part in chart["vconcat"]]
    assert titles == ["susceptibility ζ", "accuracy on noisy labels", "other", "loss on S̃"]
    with pytest.raises(InputError, match="did not record 'othr'.* Did you mean 'other'"):
        rote.plot.tracking(store, columns=["othr"])


def test_candidates_are_computed_once_and_hidden_charts_are_not_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = write_store(tmp_path / "runs")
    made = []
    ordered = candidates._sort

    def counting(everything: Candidates) -> Candidates:
        made.append(everything)
        return ordered(everything)

    monkeypatch.setattr(candidates, "_sort", counting)
    report(store, tmp_path / "page.html")
    assert len(made) == 1

    def unseen(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("rote.reporting.charts.filter.correlation", unseen)
    monkeypatch.setattr(contents, "correlation", unseen)
    for name in ("regions", "tracking", "sensitivity"):
        getattr(rote.plot, name)(store)
    monkeypatch.undo()
    monkeypatch.setattr(contents, "run_rules", unseen)
    rote.plot.filter(store)


def test_a_chart_that_cannot_be_made_is_named() -> None:
    class Needy:
        name, title, record, draw = "needy", "Needy", print, print

        def __init__(self, color: str) -> None: ...

    with pytest.raises(InputError, match="Chart 'Needy' cannot be made: .* 'color'"):
        chart_folder.find_charts([Needy])
