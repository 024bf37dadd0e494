import doctest
import json
from pathlib import Path

from typer.testing import CliRunner

from rote.cli.main import app

HOME = Path(__file__).parents[2]
PAGE = HOME / "docs" / "theory.md"


def test_the_page_about_the_theory_runs() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted > 5
    assert result.failed == 0


def test_the_exponent_of_the_gap_is_what_the_command_prints() -> None:
    page = PAGE.read_text()
    options = ["--widths", "256,4096"]
    assert f"`rote theory check {' '.join(options)}`" in page
    said = CliRunner().invoke(app, ["theory", "check", *options, "--quiet"]).stdout
    found = said.partition("the gap shrinks like m^")[2].partition(";")[0]
    assert f"m^{{{found}}}" in page


def test_the_cost_of_many_samples_is_that_of_the_benchmark() -> None:
    page = " ".join(PAGE.read_text().split())
    large = json.loads((HOME / "benchmarks" / "theory.json").read_text())["large"]
    assert f"(n = {large['n']:,}: {large['peak_gib']:.1f} GiB" in page
    assert round(large["seconds"]["spectrum"] / 60) == 3
    assert "three minutes on one core" in page
