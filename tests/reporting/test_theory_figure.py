import csv
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rote.errors import InputError
from rote.reporting.palette import FONT
from rote.reporting.theory_figure import COLUMNS, draw_bounds, save_bounds, write_captions
from rote.theory import BoundsRow, BoundsTable

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("figures")]

ROWS = tuple(
    BoundsRow(
        noise=noise,
        k_tilde=step,
        lower=1 / 3 - noise - step / 7,
        upper=10 - noise - step / 7,
        mu=math.exp(-noise - step),
        variance=0.1,
        floor=5.0 - step,
    )
    for noise in (0.0, 0.25, 1.0)
    for step in (0, 1, 2)
)
TABLE = BoundsTable(
    rows=ROWS,
    labels="class 3 is 1, class 8 is -1",
    samples=1000,
    eta=1e-3,
    k=1000,
    delta=0.05,
    trace_error=0.0,
    reversed_from=None,
)


def panels(table: BoundsTable) -> list[dict[str, Any]]:
    """The two panels, each layer with its own values."""
    spec: dict[str, Any] = draw_bounds(table, "mnist").to_dict()
    for panel in spec["hconcat"]:
        for layer in panel["layer"]:
            layer["values"] = spec["datasets"][layer["data"]["name"]]
    return list(spec["hconcat"])


def test_lower_is_dashed_and_upper_solid() -> None:
    lines = panels(TABLE)[0]["layer"][0]
    scale = lines["encoding"]["strokeDash"]["scale"]
    dashes = dict(zip(scale["domain"], scale["range"], strict=True))
    assert dashes["upper"][1] == 0
    assert dashes["lower"][1] > 0
    drawn = {(v["noise"], v["k_tilde"], v["bound"]): v["value"] for v in lines["values"]}
    expected = {}
    for row in ROWS:
        expected[f"{row.noise:g}", row.k_tilde, "lower"] = row.lower
        expected[f"{row.noise:g}", row.k_tilde, "upper"] = row.upper
    assert drawn == expected


def test_the_mean_stands_beside_the_bounds() -> None:
    lines = panels(TABLE)[1]["layer"][0]
    drawn = {(v["noise"], v["k_tilde"]): v["value"] for v in lines["values"]}
    assert drawn == {(f"{row.noise:g}", row.k_tilde): row.mu / 2 for row in ROWS}
    assert lines["encoding"]["y"]["scale"]["type"] == "log"
    flat = replace(TABLE, rows=tuple(replace(row, mu=0.0) for row in ROWS))
    assert panels(flat)[1]["layer"][0]["encoding"]["y"]["scale"]["type"] == "linear"


def test_theory_figure_uses_the_font_of_the_page() -> None:
    assert draw_bounds(TABLE, "mnist").to_dict()["config"]["font"] == FONT


def test_colors_go_with_the_noise_and_suit_the_color_blind() -> None:
    color = panels(TABLE)[0]["layer"][0]["encoding"]["color"]
    assert color["sort"] == ["0", "0.25", "1"]
    assert color["scale"]["scheme"]["name"] == "viridis"


def test_the_rule_of_the_labels_and_the_settings_are_stated() -> None:
    said = " ".join(write_captions(TABLE, "mnist"))
    assert "1,000 samples of mnist: class 3 is 1, class 8 is −1." in said
    assert "η = 0.001, k = 1,000, δ = 0.05" in said
    assert "as Proposition 1 says" in said
    assert "trace" not in said
    assert "lower bound is higher" not in said
    title = draw_bounds(TABLE, "mnist").to_dict()["title"]
    assert title["subtitle"] == write_captions(TABLE, "mnist")


def test_a_reversal_is_stated_and_marked() -> None:
    table = replace(TABLE, reversed_from=2, trace_error=0.123)
    said = write_captions(table, "mnist")
    assert "At step 2 (dotted line) more label noise stops lowering the mean" in said[1]
    assert "Proposition 1 is reversed" in said[1]
    assert said[-1] == "Low-rank spectrum: it leaves out 12.3% of the trace."
    for panel, plain in zip(panels(table), panels(TABLE), strict=True):
        assert panel["layer"][1]["values"] == [{"k_tilde": 2}]
        assert plain["layer"][1]["values"] == []


def test_lower_bound_that_rises_with_noise_is_reported() -> None:
    rows = tuple(
        replace(row, lower=row.noise) if row.k_tilde else replace(row, lower=-row.noise)
        for row in ROWS
    )
    said = write_captions(replace(TABLE, rows=rows), "mnist")
    assert said[2] == "The lower bound is higher with the most noise at 67% of the steps."


def test_files_hold_the_figure_and_every_digit(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    files = save_bounds(TABLE, "mnist", folder)
    assert {path.name for path in files.values()} == {path.name for path in folder.iterdir()}
    svg, png = files["svg"].read_text(encoding="utf-8"), files["png"].read_bytes()
    assert files["svg"].name == "mnist-bounds.svg"
    assert svg.startswith("<svg")
    assert "class 3 is 1, class 8 is −1" in svg
    assert "stroke-dasharray" in svg
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    with files["csv"].open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert [BoundsRow(**{k: float(v) for k, v in row.items()}) for row in rows] == list(ROWS)  # type: ignore[arg-type]


def test_other_files_are_left_alone_and_old_ones_replaced(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "mnist-bounds.csv").write_text("old")
    save_bounds(TABLE, "mnist", tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (tmp_path / "mnist-bounds.csv").read_text().startswith("noise,k_tilde,")
    assert len(list(tmp_path.iterdir())) == 4


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mnist-bounds.svg").write_text("old")

    def full(path: Path, content: bytes) -> int:
        path.open("wb").close()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(InputError, match="Cannot write to .*: No space left"):
        save_bounds(TABLE, "mnist", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mnist-bounds.svg"]
    assert (tmp_path / "mnist-bounds.svg").read_text() == "old"


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"Cannot write to .*file"):
        save_bounds(TABLE, "mnist", tmp_path / "file")


def test_one_level_one_step_and_many_rows_can_be_drawn() -> None:
    one = replace(TABLE, rows=ROWS[:1])
    many = replace(TABLE, rows=tuple(replace(ROWS[0], k_tilde=step) for step in range(3000)))
    for table in (one, many):
        assert len(panels(table)[0]["layer"][0]["values"]) == 2 * len(table.rows)


def test_importing_it_draws_in_neither_altair_nor_torch() -> None:
    script = (
        "import sys, rote.reporting.theory_figure; print({'altair', 'torch'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"
