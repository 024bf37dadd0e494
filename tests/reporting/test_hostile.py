"""What fuzzing found: names and numbers that broke the page or its figures."""

from pathlib import Path
from random import Random

import polars as pl
import pytest

from fuzz.page import table_of
from rote.reporting.contents import Contents, read_contents
from rote.reporting.page import render_page
from rote.reporting.plot import regions
from rote.reporting.write_report import save_figures
from rote.selection import make_candidates, select
from rote.store import RunTable

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("figures")]

NAMES = ("susceptibility", "train_accuracy", "test_accuracy", "validation_accuracy")


def table(
    run: str = "a", metric: str = "m", huge: float = 0.5, description: object = None
) -> RunTable:
    columns = {"run": [run] * 12, "row": list(range(12)), "step": list(range(12))}
    values = {name: [0.01 * i for i in range(11)] + [huge] for name in (*NAMES, metric)}
    described = description if isinstance(description, dict) else {}
    return RunTable(pl.DataFrame(columns | values), {run: described})


def contents(**options: object) -> Contents:
    return read_contents(table(**options), rule="staged")


def test_line_separators_do_not_enter_expressions(tmp_path: Path) -> None:
    signs = ("\u2028", "\x00", "\u202e", "\x1b[31m")
    found = contents(run=f"a{'b'.join(signs)}c", metric=f"d{'e'.join(signs)}f")
    page = render_page(found).replace("\n", "")
    assert [sign for sign in signs if sign in page] == []
    assert not save_figures(found, tmp_path).missing


def test_lone_surrogate_is_named() -> None:
    label = {"columns": {"m": {"label": "\ud800x", "kind": "signal"}}, "note": "\udfff"}
    page = render_page(contents(description=label))
    page.encode()
    assert "‹U+D800›x" in page
    assert "‹U+DFFF›" in page


def test_a_backslash_in_the_name_of_a_metric_breaks_no_hint(tmp_path: Path) -> None:
    import vl_convert

    found = table(metric="a\\b\\")
    assert not save_figures(read_contents(found, rule="staged"), tmp_path).missing
    assert vl_convert.vegalite_to_svg(regions(found).to_json())


@pytest.mark.parametrize("huge", [1.7e308, -1.7e308, 1e150, float("inf")])
def test_overflowing_sums_are_unknown(huge: float) -> None:
    found = table(huge=huge)
    assert make_candidates(found, "susceptibility").known("zeta").sum() == 11
    assert any("no finite `susceptibility`" in text for text in select(found, "regions").warnings)
    render_page(read_contents(found, rule="staged"))


@pytest.mark.parametrize(
    "holdout", ["text", 3, {"predictions": "x"}, {"predictions": [-1]}, {}, []]
)
def test_foreign_holdout_description_has_no_size(holdout: object) -> None:
    selection = select(table(description={"holdout": holdout}), "noisy-validation")
    assert selection.pick.interval is None


def test_a_validation_accuracy_below_zero_has_an_interval() -> None:
    found = table(description={"holdout": {"size": 100}})
    below = found.frame.with_columns(validation_accuracy=pl.lit(-0.5))
    selection = select(RunTable(below, found.descriptions), "noisy-validation")
    assert selection.pick.interval is not None
    assert selection.pick.interval[0] == pytest.approx(0.0)


@pytest.mark.filterwarnings("ignore::rote.errors.RoteWarning")
@pytest.mark.parametrize(("seed", "name"), [(1210484339, "overview"), (1332073689, "filter")])
def test_a_figure_that_cannot_be_drawn_is_named_and_the_others_are_there(
    seed: int, name: str, tmp_path: Path
) -> None:
    found = save_figures(read_contents(table_of(Random(seed))), tmp_path)
    assert "Expected a chart that can be drawn, got: " in found.missing[name]
    assert "    at " not in found.missing[name]
    assert {file.stem for file in found.files}.isdisjoint(found.missing)
