"""How a selection reads: one paragraph, a small table, and JSON; and the file that it names."""

import json
import re
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from rote.errors import InputError, StoreError
from rote.selection import (
    Candidates,
    Decision,
    Findings,
    Selection,
    Suspect,
    copy_checkpoint,
    select,
)
from rote.store import CHECKPOINTS_FILE, checkpoint_path, find_checkpoint
from tests.selection.tables import Row, table_of, write_voters

EVIL = "<script>alert(1)</script>\x1b[2J\u202e&\n"


@dataclass(frozen=True)
class Estimating:
    """A rule that knows everything."""

    name: ClassVar[str] = "estimating"
    needs: ClassVar[tuple[str, ...]] = ()
    compares_runs: ClassVar[bool] = False

    def judge(self, candidates: Candidates) -> Decision:
        estimate = candidates.values("train_accuracy") / 2
        findings = Findings(
            noise_rate=0.4,
            noise_matrix=((0.6, 0.4), (0.25, 0.75)),
            confidence=0.83,
            suspects=(Suspect(3, 1, 0, 0.9),),
        )
        return Decision(
            1,
            ("It estimates.",),
            interval=(0.25, 0.5),
            columns={"estimated_accuracy": estimate},
            findings=findings,
        )


def rows(run: str = "a", **more: float) -> list[Row]:
    accuracies = (0.5, 0.8, 0.6, 0.7)
    return [
        {"run": run, "step": step, "susceptibility": step / 10, "train_accuracy": accuracy} | more
        for step, accuracy in enumerate(accuracies, start=1)
    ]


def estimated(run: str = "a", **more: float) -> Selection:
    return select(table_of(rows(run, **more)), Estimating())


def test_a_selection_prints_as_one_paragraph() -> None:
    text = str(estimated(test_accuracy=0.25))
    # Half of 0.8 beside half of the last, 0.7, and of the median of 0.5, 0.6, 0.7, 0.8.
    assert text.startswith(
        "Keep step 2 of run a. By estimate it is 5.0 points better than the last checkpoint and "
        "7.5 points better than the median one. On test data it has 25.0%: as good as the last "
        "checkpoint, as good as the median one and as good as the best. It estimates. "
    )
    assert "Careful: Only 4 checkpoints" in text
    assert "\n" not in text


def test_a_rule_without_an_estimate_is_compared_on_the_given_labels() -> None:
    told = rows()
    for row, accuracy in zip(told, (0.3, 0.2, 0.4, 0.25), strict=True):
        row["validation_accuracy"] = accuracy
    text = str(select(table_of(told), "max:train_accuracy"))
    assert (
        "On the holdout's given labels, some of which may be wrong, it has 20.0%: 5.0 points worse "
        "than the last checkpoint and 7.5 points worse than the median one." in text
    )
    assert "By estimate" not in text


def test_the_last_checkpoint_of_several_runs_is_the_best_trained_one() -> None:
    table = table_of([*rows("a"), *rows("b", train_accuracy=0.9)])
    (baseline,) = select(table, Estimating()).baselines
    assert baseline.last == pytest.approx(0.45)
    assert baseline.best == pytest.approx(0.45)
    assert baseline.median == pytest.approx(0.425)  # of .25 .3 .35 .4 and four times .45


def test_more_than_three_doubts_are_counted() -> None:
    told = rows()
    for row in told:
        row |= {"flags": ["dominated", "diverging", "non_finite"], "loss_before": 1.0}
    found = select(table_of(told), Estimating())
    assert len(found.warnings) > 3
    assert f"({len(found.warnings) - 3} more in `.warnings`.)" in str(found)


class Text(HTMLParser):
    """The tags of a page, and its words."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.words = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.words += f" {data}"


def test_a_notebook_shows_a_small_table() -> None:
    found = Text(estimated(test_accuracy=0.25)._repr_html_())
    assert found.tags == {"table", "tr", "th", "td", "bdi"}
    for words in (
        "step 2 of a",
        "40.0% (25.0% to 50.0%)",
        "35.0% · 32.5%",
        "83% probability",
        "wrong 40%",
        "estimating",
        "It estimates.",
    ):
        assert words in found.words


def test_a_hostile_name_is_text_everywhere() -> None:
    selection = estimated(EVIL)
    assert not re.search("[\x00-\x1f\u202e]", str(selection))
    assert "‹U+001B›" in str(selection)
    found = Text(selection._repr_html_())
    assert "script" not in found.tags
    assert "<script>alert(1)</script>‹U+001B›[2J‹U+202E›&‹U+000A›" in found.words


def test_json_has_all_that_is_known() -> None:
    found = json.loads(json.dumps(estimated().to_json(), allow_nan=False))
    assert found["pick"]["estimated_accuracy"] == pytest.approx(0.4)
    assert found["pick"]["interval"] == [0.25, 0.5]
    assert (found["confidence"], found["noise_rate"]) == (0.83, 0.4)
    assert found["noise_matrix"] == [[0.6, 0.4], [0.25, 0.75]]
    assert found["suspects"] == [{"sample": 3, "given": 1, "believed": 0, "probability": 0.9}]
    (baseline,) = found["baselines"]
    assert baseline["column"] == "estimated_accuracy"
    assert found["reasons"][-1] == "It estimates."


def saved(root: Path) -> Selection:
    """A pick whose weights are saved as `rote train` saves them."""
    write_voters(root, np.zeros((1, 3, 3), dtype=np.int64), 4)
    (run,) = root.iterdir()
    for step in (1, 2, 3):
        file = checkpoint_path(run, step)
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"weights %d" % step)
    return select(root, "last")


def test_the_file_of_the_pick_is_named(tmp_path: Path) -> None:
    selection = saved(tmp_path)
    file = tmp_path / "h-0" / "checkpoints" / "step-00003.safetensors"
    assert selection.pick.file == file
    assert selection.to_json()["pick"]["file"] == str(file)
    assert str(selection).startswith(f"Keep step 3 of run run0: {file}. ")
    assert str(file) in Text(selection._repr_html_()).words
    file.unlink()
    assert select(tmp_path, "last").pick.file is None


@pytest.mark.parametrize(
    "name", ["step-7.pt", "step-00007.pth", "checkpoints/step-7.ckpt", "step-7.safetensors"]
)
def test_weights_that_a_loop_of_ones_own_saved_are_found(tmp_path: Path, name: str) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / name).touch()
    (tmp_path / "step-70.pt").touch()
    assert find_checkpoint(tmp_path, 7) == tmp_path / name
    assert find_checkpoint(tmp_path, 8) is None


@pytest.mark.parametrize("contents", ["{", "[]", '{"1": 7}', '{"2": "gone.pt"}', "{}"])
def test_a_list_of_files_that_leads_nowhere_names_none(tmp_path: Path, contents: str) -> None:
    (tmp_path / CHECKPOINTS_FILE).write_text(contents)
    assert find_checkpoint(tmp_path, 1) is None
    assert find_checkpoint(tmp_path, 2) is None


def test_files_that_were_probed_after_the_fact_are_named(tmp_path: Path) -> None:
    (tmp_path / "epoch=3.ckpt").touch()
    (tmp_path / "checkpoint-500").mkdir()
    files: dict[str, Any] = {"1": str(tmp_path / "epoch=3.ckpt"), "2": "checkpoint-500"}
    (tmp_path / CHECKPOINTS_FILE).write_text(json.dumps(files))
    assert find_checkpoint(tmp_path, 1) == tmp_path / "epoch=3.ckpt"
    assert find_checkpoint(tmp_path, 2) == tmp_path / "checkpoint-500"


def test_a_checkpoint_is_copied_once_and_nothing_is_overwritten(tmp_path: Path) -> None:
    pick = saved(tmp_path / "runs").pick
    copy = copy_checkpoint(pick, tmp_path / "new" / "folder")
    assert copy == tmp_path / "new" / "folder" / "run0-step-00003.safetensors"
    assert copy.read_bytes() == b"weights 3"
    assert copy_checkpoint(pick, copy.parent) == copy  # the same: nothing to do
    copy.write_bytes(b"mine")
    with pytest.raises(InputError, match="to be free, got another file there"):
        copy_checkpoint(pick, copy.parent)
    assert copy.read_bytes() == b"mine"
    assert list(copy.parent.iterdir()) == [copy]  # no draft is left


def test_what_cannot_be_copied_is_said(tmp_path: Path) -> None:
    pick = estimated("../../evil").pick
    with pytest.raises(InputError, match=r'got no file. Next time: checkpoints = { keep = "all" }'):
        copy_checkpoint(pick, tmp_path)
    with pytest.raises(InputError, match="to be one file, got the folder"):
        copy_checkpoint(replace(pick, file=tmp_path), tmp_path)
    (tmp_path / "weights.pt").write_bytes(b"w")
    found = copy_checkpoint(replace(pick, file=tmp_path / "weights.pt"), tmp_path / "out")
    assert found == tmp_path / "out" / "evil-step-00002.pt"  # never outside of the folder
    with pytest.raises(StoreError, match="to be written, got"):
        copy_checkpoint(replace(pick, file=tmp_path / "weights.pt"), tmp_path / "weights.pt" / "x")
