import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import altair as alt
import pytest

import rote
from rote import report
from rote.errors import InputError
from rote.formatting import escape_invisible
from rote.reporting.charts import CHARTS, split_chart
from rote.reporting.contents import read_contents
from rote.reporting.frame import make_chart_frame, make_page_frame
from rote.reporting.page import collect_records, compile_charts
from rote.reporting.write_report import save_figures
from tests.reporting.stores import EVIL_METRIC, EVIL_NAMES, SIGNALS, TRUTH, write_store

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("figures")]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    metrics = (*TRUTH, EVIL_METRIC)
    evil = {EVIL_METRIC: {"better": "higher"}}  # with ζ, two signals to compare
    root = tmp_path_factory.mktemp("runs")
    return write_store(root, runs=3, names=EVIL_NAMES, metrics=metrics, columns=evil)


def test_every_figure_is_written_as_svg_and_png(store: Path, tmp_path: Path) -> None:
    saved = save_figures(read_contents(store, rule="staged"), tmp_path / "figures")
    assert saved.missing == {}
    assert {path.name for path in saved.files} == {
        f"{name}.{kind}" for name in CHARTS for kind in ("svg", "png")
    }
    assert sorted((tmp_path / "figures").iterdir()) == sorted(saved.files)
    for path in saved.files:
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG")
        else:
            root = ElementTree.parse(path).getroot()
            assert root.tag.endswith("svg")
            assert not list(root.iter("{http://www.w3.org/2000/svg}script"))


def test_undrawable_figures_are_named_with_the_reason(tmp_path: Path) -> None:
    store = write_store(tmp_path / "runs", metrics=["train_accuracy"])
    saved = save_figures(read_contents(store, rule="staged"), tmp_path / "figures")
    assert list(saved.missing) == ["filter"]
    assert "training accuracy and test accuracy" in saved.missing["filter"]
    assert not (tmp_path / "figures" / "filter.svg").exists()


@pytest.mark.parametrize("name", rote.plot.__all__)
def test_plots_are_charts_of_altair_with_their_data(store: Path, name: str) -> None:
    chart = getattr(rote.plot, name)(store)
    assert isinstance(chart, alt.LayerChart | alt.VConcatChart | alt.HConcatChart)
    if name == "sensitivity":
        return  # it draws cells, not checkpoints
    datasets = chart.to_dict()["datasets"].values()
    (rows,) = [rows for rows in datasets if len(rows) == 36]  # once, whatever many layers draw them
    assert rows[0]["run"] in map(escape_invisible, EVIL_NAMES)


def marks(spec: Any) -> list[Any]:
    """The marks and encodings of a chart, whatever it is made of."""
    if isinstance(spec, dict):
        if "mark" in spec:
            return [(spec["mark"], spec.get("encoding"))]
        return [mark for value in spec.values() for mark in marks(value)]
    return [mark for value in spec for mark in marks(value)] if isinstance(spec, list) else []


def test_the_page_draws_the_same_charts(store: Path) -> None:
    page = compile_charts(collect_records(read_contents(store), CHARTS)[0], CHARTS)
    regions = {"regions", "zeta", "noisy", "before", "after", "sensitivity", "signals"}
    assert set(page) == regions | {"overview", "overview-zeta"}
    for name, parts in {
        "regions": ["regions"],
        "tracking": ["zeta", "noisy"],
        "filter": ["before", "after"],
        "sensitivity": ["sensitivity"],
    }.items():
        drawn = sum(len(page[part]["marks"]) for part in parts)
        assert drawn >= len(marks(getattr(rote.plot, name)(store).to_dict())) - 2 * len(parts)


def test_every_chart_passes_the_schema_of_altair(store: Path, tmp_path: Path) -> None:
    for runs in (store, write_store(tmp_path, metrics=["train_accuracy"])):
        contents = read_contents(runs, rule="staged")
        records, _ = collect_records(contents, CHARTS)
        for frame in (make_page_frame(), make_chart_frame(contents.checkpoints, is_live=False)):
            for name, record in records.items():
                for chart in split_chart(CHARTS[name], record, frame).values():
                    assert frame.spec(chart, check=True) == frame.spec(chart, check=False)


def test_sliders_in_a_notebook_start_at_the_thresholds(store: Path) -> None:
    parameters = {
        p["name"].rsplit("_", 1)[0]: p  # what follows is the chart's own
        for p in rote.plot.regions(store, rule="regions").to_dict()["params"]
    }
    thresholds = rote.select(store, "regions").thresholds
    assert parameters["zeta_threshold"]["value"] == thresholds["susceptibility"]
    assert parameters["train_threshold"]["value"] == thresholds["train_accuracy"]
    assert parameters["zeta_threshold"]["bind"]["input"] == "range"


def test_a_plot_that_cannot_be_drawn_says_why(tmp_path: Path) -> None:
    store = write_store(tmp_path, metrics=[])
    with pytest.raises(InputError, match="no checkpoints with ζ and training accuracy"):
        rote.plot.regions(store)
    with pytest.raises(InputError, match="no checkpoints with ζ and training accuracy"):
        rote.plot.sensitivity(store)
    with pytest.raises(InputError, match="no checkpoints with ζ, training accuracy and test"):
        rote.plot.filter(store)
    assert len(rote.plot.tracking(store).to_dict()["vconcat"]) == 1


def test_no_torch_is_needed(store: Path, tmp_path: Path) -> None:
    script = (
        "import sys, rote; rote.report(sys.argv[1], sys.argv[2]); assert 'torch' not in sys.modules"
    )
    command = [sys.executable, "-c", script, str(store), str(tmp_path / "page.html")]
    subprocess.run(command, check=True)
    assert (tmp_path / "page.html").stat().st_size > 300_000


OUTSIDE = """svg => {
    const box = svg.getBoundingClientRect();
    return [...svg.querySelectorAll("text")].filter((text) => {
        const one = text.getBoundingClientRect();
        return one.width && (one.left < box.left || one.right > box.right
            || one.top < box.top || one.bottom > box.bottom);
    }).map((text) => text.textContent);
}"""


@pytest.mark.slow
def test_no_text_of_a_figure_is_clipped_in_a_browser(tmp_path: Path, browser: Any) -> None:
    # The converter measures names without what looks like a tag: `alignment` has one.
    plain = {name: told for name, told in SIGNALS.items() if name != "alignment"}
    store = write_store(tmp_path / "runs", metrics=(*TRUTH, *plain), columns=plain)
    report(store, tmp_path / "page.html", rule="staged", figures=tmp_path / "figures")
    files = [*(tmp_path / "figures").glob("*.svg"), *(ROOT / "docs").rglob("*.svg")]
    assert len(files) >= 30
    page = browser.new_page()
    clipped = {}
    for file in files:
        page.set_content(file.read_text())
        for font in (
            "svg text { }",
            "svg text { font-family: 'DejaVu Sans', Verdana, sans-serif; }",
        ):
            page.add_style_tag(content=font)  # the second is wider than most
            clipped[file.name, font] = page.eval_on_selector("svg", OUTSIDE)
    page.close()
    assert {at: texts for at, texts in clipped.items() if texts} == {}
