"""The charts for notebooks: they join as any other, and read what `rote.select` reads."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import altair as alt
import polars as pl
import pytest
import vl_convert

import rote
from rote.errors import InputError
from rote.store import read_table
from tests.reporting.stores import write_store

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("figures")]

NAMES = {"susceptibility": "meter", "train_accuracy": "acc/fit", "test_accuracy": "acc/held"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_store(tmp_path_factory.mktemp("runs"), runs=3)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_store(tmp_path_factory.mktemp("other"), runs=4, steps=9)


@pytest.fixture(scope="module")
def foreign(store: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("csv") / "metrics.csv"
    renamed = [pl.col(name).alias(theirs) for name, theirs in NAMES.items()]
    read_table(store).frame.select("run", "step", *renamed).write_csv(path)
    return f"csv:{path}"


def drawn(spec: Any) -> str:
    return str(vl_convert.vegalite_to_svg(json.dumps(spec)))


JOINS: dict[str, Callable[[Path, Path], Any]] = {
    "side by side": lambda a, _: rote.plot.regions(a) | rote.plot.filter(a),
    "one above the other": lambda a, _: rote.plot.tracking(a) & rote.plot.sensitivity(a),
    "all": lambda a, _: (
        (rote.plot.regions(a) | rote.plot.sensitivity(a))
        & (rote.plot.filter(a) | rote.plot.tracking(a))
    ),
    "two stores": lambda a, b: rote.plot.regions(a) | rote.plot.regions(b),
    "two rules": lambda a, _: rote.plot.regions(a) | rote.plot.regions(a, rule="regions"),
    "with a heading": lambda a, b: alt.hconcat(
        rote.plot.filter(a), rote.plot.filter(b), title="Two pools"
    ).configure_view(stroke="red"),
}


@pytest.mark.parametrize("join", JOINS)
def test_plots_are_joined_as_any_chart(store: Path, other: Path, join: str) -> None:
    spec = JOINS[join](store, other).to_dict()  # a warning would be an error
    parameters = spec["params"]
    assert len({parameter["name"] for parameter in parameters}) == len(parameters)
    views = [view for parameter in parameters for view in parameter.get("views", ())]
    assert len(set(views)) == len(views)  # a click chooses a run in the charts that were one
    svg = drawn(spec)
    assert svg.count("mark-group role-frame root") == 1
    assert svg.count("role-axis-title") >= 4  # of two charts or more


def test_a_slider_moves_the_lines_of_its_own_chart(store: Path, other: Path) -> None:
    joined = rote.plot.regions(store, rule="regions") | rote.plot.regions(other, rule="regions")
    sliders = {
        p["value"] for p in joined.to_dict()["params"] if p["name"].startswith("zeta_threshold")
    }
    found = [rote.select(runs, "regions") for runs in (store, other)]
    assert sliders == {selection.thresholds["susceptibility"] for selection in found}


def test_regions_are_named_in_their_corners_also_beside_another_chart(store: Path) -> None:
    joined = rote.plot.filter(store) | rote.plot.regions(store)
    root = ElementTree.fromstring(drawn(joined.to_dict()))
    places = {
        text.text: [float(n) for n in re.findall(r"[-\d.]+", text.get("transform", ""))[:2]]
        for text in root.iter("{http://www.w3.org/2000/svg}text")
        if (text.text or "").startswith("Region ")
    }
    width, height = (places["Region 4"][axis] - places["Region 1"][axis] for axis in (0, 1))
    assert (width, height) == pytest.approx((640 - 16, 420 - 24), abs=0.01)
    assert places["Region 2"] == [places["Region 4"][0], places["Region 1"][1]]
    assert places["Region 3"] == [places["Region 1"][0], places["Region 4"][1]]


def test_user_chart_is_layered_over_a_plot(store: Path) -> None:
    line = alt.Chart(alt.InlineData(values=[{"zeta": 0.1}])).mark_rule(color="#ab12cd")
    chart = rote.plot.regions(store) + line.encode(x="zeta:Q")
    assert "#ab12cd" in drawn(chart.to_dict())


@pytest.mark.parametrize("name", rote.plot.__all__)
def test_the_same_chart_is_the_same_text(store: Path, name: str) -> None:
    draw = getattr(rote.plot, name)
    params, again = (draw(store).to_dict()["params"] for _ in range(2))
    assert [p["name"] for p in params] == [p["name"] for p in again]


@pytest.mark.parametrize("name", rote.plot.__all__)
def test_metrics_may_have_other_names(store: Path, foreign: str, name: str) -> None:
    draw = getattr(rote.plot, name)
    svg = drawn(draw(foreign, mapping=NAMES).to_dict())
    assert svg.count("<path") > 20
    if name != "tracking":
        with pytest.raises(InputError, match="no checkpoints with ζ"):
            draw(foreign)
    if name in ("regions", "filter"):  # the same points; tracking has no noisy labels to draw here
        assert svg.count("<path") == drawn(draw(store).to_dict()).count("<path")


def test_a_mapping_beside_a_table_is_refused_as_by_select(store: Path, tmp_path: Path) -> None:
    table = read_table(store)
    for call in (
        lambda: rote.select(table, mapping=NAMES),
        lambda: rote.plot.regions(table, mapping=NAMES),
        lambda: rote.report(table, tmp_path / "page.html", mapping=NAMES),
    ):
        with pytest.raises(InputError, match="table of runs takes no `mapping`"):
            call()
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize("plot", ["regions", "tracking", "filter", "sensitivity"])
def test_a_notebook_shows_charts_without_the_network(store: Path, plot: str) -> None:
    chart = getattr(rote.plot, plot)(store)
    bundle = chart._repr_mimebundle_()
    (specification, picture) = bundle
    assert re.fullmatch(r"application/vnd\.vegalite\.v\d+\+json", specification)
    assert bundle[specification] == chart.to_dict()
    assert picture == "image/svg+xml"
    assert ElementTree.fromstring(bundle[picture]).tag.endswith("svg")
    assert re.search(r"<script|href=.http", bundle[picture]) is None
    left, bare = (
        re.search(r"<svg.*?translate\((\d+),", svg)
        for svg in (bundle[picture], vl_convert.vegalite_to_svg(chart.to_dict()))
    )
    assert left is not None
    assert bare is not None
    assert int(left[1]) >= int(bare[1]) + 10  # wider fonts do not touch the numbers
    assert isinstance(chart, alt.TopLevelMixin)


def test_a_renderer_that_was_enabled_decides(store: Path) -> None:
    chart = rote.plot.filter(store)
    with alt.renderers.enable("png"):
        assert "image/png" in chart._repr_mimebundle_()[0]
    with alt.renderers.enable("html"):
        assert "text/html" in chart._repr_mimebundle_()
