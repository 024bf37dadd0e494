"""`rote study` from the command line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rote.cli.main import app
from rote.errors import InputError
from rote.studies import PAPER, Pool, studies

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("study")]

runner = CliRunner()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One pool of six runs, foreseen, trained once, and not again."""
    store = tmp_path_factory.mktemp("study") / "store"
    foreseen = [*command("regions", store), "--dry-run"]
    assert "6 runs: 6 new" in runner.invoke(app, foreseen).stdout
    ended = runner.invoke(app, command("regions", store))
    assert ended.exit_code == 0, ended.output
    assert "6 finished" in runner.invoke(app, foreseen).stdout
    return store


def command(study: str, store: Path) -> list[str]:
    options = ["--preset", "tiny", "--pool", "digits-symmetric-0", "--workers", "1", "--quiet"]
    return ["study", "run", study, "--store", str(store), *options]


def shown(study: str, store: Path, out: Path) -> dict:  # type: ignore[type-arg]
    """What a study says, and what it has written."""
    ended = runner.invoke(app, [*command(study, store), "--no-train", "--out", str(out), "--json"])
    assert ended.exit_code == 0, ended.output
    written = (out / f"{study}.json").read_text()
    assert ended.stdout.strip() == written.strip()
    text = (out / f"{study}.md").read_text()
    assert "**The paper.**" in text
    assert f"rote study run {study} --preset tiny" in text
    assert (out / f"{study}.svg").read_text().startswith("<svg")
    return json.loads(written)  # type: ignore[no-any-return]


def test_unknown_study_lists_all_and_a_typo_suggests_the_command() -> None:
    with pytest.raises(InputError, match="Unknown study 'nope'. Studies: asymmetric, att"):
        runner.invoke(app, ["study", "nope"], catch_exceptions=False)
    assert (
        "No such command 'lst'. Did you mean 'list'?" in runner.invoke(app, ["study", "lst"]).output
    )


def test_studies_are_listed_by_their_first_word_with_their_figures() -> None:
    plain = runner.invoke(app, ["study", "list", "--plain"]).stdout.splitlines()
    assert [line.split()[0] for line in plain] == list(studies())
    said = runner.invoke(app, ["study", "list"]).stdout
    assert "figure-4, figure-17" in said
    assert "[ours]" in said


def test_the_leaderboard_judges_every_selector(store: Path, tmp_path: Path) -> None:
    written = shown("leaderboard", store, tmp_path)
    assert written["groups"]["judged"] == ["digits-symmetric-0"]
    rows = written["pools"]["digits-symmetric-0"]["rows"]
    assert rows["oracle"]["regret"][0] == 0
    assert {"auto", "posterior", "GWA", "LabelWave", "last checkpoint"} <= rows.keys()
    assert all(row["regret"][0] >= 0 for row in rows.values())


def test_regions_divide_all_checkpoints(store: Path, tmp_path: Path) -> None:
    written = shown("regions", store, tmp_path)["pools"]["digits-symmetric-0"]
    for way in ("ζ", "ζ of the reference step"):
        regions = written[way]
        assert sum(region["count"] for region in regions) == 6 * 16
        assert all(0 <= r["mean"] <= 1 for r in regions if r["count"])


def test_the_estimated_accuracy_stands_beside_the_truth(store: Path, tmp_path: Path) -> None:
    found = shown("estimated-accuracy", store, tmp_path)["pools"]["digits-symmetric-0"]
    assert found["pick"]["true"] <= found["pick"]["best"]
    assert found["error"] >= abs(found["bias"])
    assert found["pearson"] > 0.8


def test_all_recorded_studies_are_shown_with_an_index(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ROTE_DATA", raising=False)
    record = property(lambda pool: tmp_path / "records" / f"{pool.name}.tar.xz")
    monkeypatch.setattr(Pool, "record", record)
    ended = runner.invoke(app, [*command("regions", store), "--no-train", "--record"])
    assert ended.exit_code == 0, ended.output
    page = tmp_path / "reproduce.md"
    page.write_text("<!-- figures: begin -->\n<!-- figures: end -->\n")
    options = ["--all", "--out", str(tmp_path / "out"), "--index", str(page)]
    ended = runner.invoke(app, ["study", "show", *options])
    assert ended.exit_code == 0, ended.output
    index = (tmp_path / "out" / "README.md").read_text()
    assert "[leaderboard](leaderboard.md)" in index
    figures = page.read_text()
    assert all(f"| {shown.number} |" in figures for shown in PAPER.values())
    assert "(results/regions.md)" in figures
    assert "| not trained yet |" in figures
    assert "bounds: In " in ended.stdout


def test_the_name_of_a_study_alone_shows_it() -> None:
    asked = ["show", "leaderboard"], ["leaderboard"]
    said = [runner.invoke(app, ["study", *args, "--help"]).stdout for args in asked]
    assert said[0] == said[1]
    assert "study show" in said[0]


def test_an_unknown_study_or_preset_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Unknown study"):
        runner.invoke(app, ["study", "show", "none"], catch_exceptions=False)
    with pytest.raises(InputError, match="Name one study, or pass --all"):
        runner.invoke(app, ["study", "show"], catch_exceptions=False)
    with pytest.raises(InputError, match="--index needs --all"):
        runner.invoke(
            app, ["study", "show", "regions", "--index", "page.md"], catch_exceptions=False
        )
    with pytest.raises(InputError, match="Expected `preset` to be one of tiny"):
        runner.invoke(
            app, ["study", "run", "leaderboard", "--preset", "huge"], catch_exceptions=False
        )
    with pytest.raises(InputError, match="Expected `preset` of study 'real-noise'"):
        runner.invoke(app, ["study", "run", "real-noise"], catch_exceptions=False)
    with pytest.raises(InputError, match="needs --executor ray"):
        runner.invoke(
            app, [*command("regions", tmp_path), "--gpus-per-run", "1"], catch_exceptions=False
        )
    with pytest.raises(InputError, match="no finished pools"):
        runner.invoke(
            app, [*command("regions", tmp_path / "none"), "--no-train"], catch_exceptions=False
        )


def test_a_figure_without_data_says_so_and_others_take_the_preset_that_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from rote.cli.study import _take_preset

    said: list[str] = []
    monkeypatch.setattr("rote.cli.study.say", lambda words, **_: said.append(words))
    presets = [
        ("medium", {"pools": {"cifar10-medium-0": 1}}),
        ("small", {"pools": {"mnist-symmetric-0": 2}}),
    ]
    assert _take_preset(iter(presets), "figure-5")[0] == "medium"
    assert _take_preset(iter(presets), "figure-16")[0] == "small"
    assert said == []
    assert _take_preset(iter(presets), "figure-23")[0] == "medium"
    assert "Figure 23" in said[0]
    assert "not trained yet" in said[0]


def test_a_figure_of_the_paper_is_shown_as_text_for_a_terminal() -> None:
    said = runner.invoke(app, ["study", "show", "figure-16"])
    assert said.exit_code == 0, said.output
    assert "mnist-medium-0" in said.stdout
    assert "fashion-medium-0" not in said.stdout
    assert not any(mark in said.stdout for mark in ("|---", "**", "![", "# "))
