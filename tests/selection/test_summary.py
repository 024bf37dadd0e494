"""A selection in words and as JSON: headline, summary, explanation; and the file that it names."""

import json
import re
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import rote
from rote.errors import InputError, StoreError
from rote.selection import Candidates, Decision, Selection, Suspect, copy_checkpoint, select
from rote.selection.rule import Findings
from rote.store import get_checkpoint_path
from rote.store.run_record import CHECKPOINTS_FILE, find_checkpoint
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
            labels=50,
            confidence=0.83,
            beats_last=0.97,
            expected_loss=0.012,
            suspects=(Suspect(3, 1, 0, 0.9),),
        )
        return Decision(
            1,
            ("It estimates.",),
            interval=(0.25, 0.5),
            columns={"estimated_accuracy": estimate},
            findings=findings,
            evidence="fair",
        )


def rows(run: str = "a", **more: float) -> list[Row]:
    accuracies = (0.5, 0.8, 0.6, 0.7)
    return [
        {"run": run, "step": step, "susceptibility": step / 10, "train_accuracy": accuracy} | more
        for step, accuracy in enumerate(accuracies, start=1)
    ]


def estimated(run: str = "a", **more: float) -> Selection:
    return select(table_of(rows(run, **more)), Estimating())


def test_the_summary_has_a_headline_rows_and_next_steps(tmp_path: Path) -> None:
    found = replace(estimated(test_accuracy=0.25), source="runs")
    # Half of 0.8 beside half of the last, 0.7.
    assert str(found).splitlines() == [
        "Keep step 2 of a",
        "",
        "  Estimated accuracy   40.0%         95% interval 25.0–50.0%, if label errors are not "
        "systematic",
        "  vs last checkpoint   +5.0 points   better with 97% probability",
        "  Test accuracy        25.0%         last checkpoint 25.0%, best 25.0%",
        "  Label noise          about 40% of 50 given labels look wrong",
        "  Evidence             fair",
        "",
        "Rule: estimating.",
        "Caution: Only 4 checkpoints: fewer than 10 are too few to trust any rule.",
        "Next: rote report runs · rote suspects runs · rote select runs --explain",
    ]
    assert [row.label for row in found.summary.rows][-1] == "Evidence"


def test_rows_name_an_entry_of_the_glossary_on_the_page() -> None:
    page = Path(rote.__file__).parent / "reporting" / "assets" / "words.html"
    words = {row.label: row.word for row in estimated().summary.rows}
    assert words["Estimated accuracy"] == "estimated-accuracy"
    assert words["Label noise"] == "noise-rate"
    known = re.findall(r'id="word-([a-z-]+)"', page.read_text(encoding="utf-8"))
    assert {word for word in words.values() if word} <= set(known)


def test_the_explanation_has_the_rest_under_headings() -> None:
    told = {
        part.heading: part.sentences
        for part in estimated(validation_accuracy=0.3).explanation.sections
    }
    assert list(told) == [
        "Why this checkpoint",
        "Comparison",
        "Confidence",
        "Label noise",
        "Evidence",
        "Caution",
    ]
    assert told["Why this checkpoint"] == ("Rule: estimating.", "It estimates.")
    # The median is half of that of 0.5, 0.6, 0.7, 0.8.
    assert told["Comparison"] == (
        "Estimated accuracy: 40.0%, +5.0 points vs the last checkpoint, +7.5 points vs the median "
        "checkpoint.",
    )
    assert "1.2 points below the best" in told["Confidence"][1]
    assert "83% that this is within 1 point" in told["Confidence"][2]
    assert "30.0% of your given labels match" in told["Label noise"][1]
    assert "about 60% is the most possible" in told["Label noise"][1]
    assert "Why this checkpoint\n  Rule: estimating." in str(estimated().explanation)


def test_weak_evidence_is_tentative_and_says_how_to_get_better() -> None:
    found = replace(select(table_of(rows()), "max:train_accuracy"), source="runs")
    assert found.evidence.grade == "weak"
    assert found.headline == "Tentative: step 2 of a"
    assert found.to_json()["headline"] == found.headline
    assert found.summary.next_steps[0].startswith("for better evidence, hold out about 300 samples")
    own = found.summarize("pass holdout=x").next_steps
    assert own[0] == "for better evidence, pass holdout=x"
    assert [row.label for row in found.summary.rows] == [
        "Training accuracy",
        "Susceptibility ζ",
        "Evidence",
    ]


def test_without_an_estimate_the_given_labels_are_compared() -> None:
    told = rows()
    for row, accuracy in zip(told, (0.3, 0.2, 0.4, 0.25), strict=True):
        row["validation_accuracy"] = accuracy
    found = select(table_of(told), "noisy-validation")
    assert found.evidence.grade == "fair"
    first, second, *_ = found.summary.rows
    assert (first.label, first.value) == ("Noisy validation accuracy", "40.0%")
    assert (second.label, second.value) == ("vs last checkpoint", "+15.0 points")


def test_a_selected_last_checkpoint_is_said_to_be_the_last() -> None:
    told = rows()
    for row, accuracy in zip(told, (0.3, 0.2, 0.2, 0.4), strict=True):
        row["validation_accuracy"] = accuracy
    gain = select(table_of(told), "noisy-validation").summary.rows[1]
    assert (gain.value, gain.note) == ("±0.0 points", "this is the last checkpoint")


def test_zeta_of_the_reference_step_is_called_so() -> None:
    table = table_of(rows(susceptibility_plain=0.25))
    kinds = {
        column: select(table, "max:train_accuracy", column=column).summary.rows[1].note
        for column in ("susceptibility", "susceptibility_plain")
    }
    assert kinds == {"susceptibility": "", "susceptibility_plain": "of the reference step"}


def test_the_last_checkpoint_of_several_runs_is_the_best_trained_one() -> None:
    table = table_of([*rows("a"), *rows("b", train_accuracy=0.9)])
    (baseline,) = select(table, Estimating()).baselines
    assert baseline.last == pytest.approx(0.45)
    assert baseline.best == pytest.approx(0.45)
    assert baseline.median == pytest.approx(0.425)  # of .25 .3 .35 .4 and four times .45


def test_further_warnings_are_counted() -> None:
    told = rows()
    for row in told:
        row |= {"flags": ["dominated", "diverging", "non_finite"], "loss_before": 1.0}
    found = select(table_of(told), Estimating())
    assert len(found.warnings) > 2
    assert f"({len(found.warnings) - 1} more: --explain)" in str(found)


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
        "Keep step 2 of a",
        "40.0% 95% interval 25.0–50.0%",
        "+5.0 points",
        "97% probability",
        "about 40%",
        "estimating",
        "It estimates.",
    ):
        assert words in found.words


def test_a_hostile_name_is_text_everywhere() -> None:
    selection = estimated(EVIL)
    assert not any(re.search("[\x00-\x1f\u202e]", line) for line in selection.summary.lines)
    for part in selection.explanation.sections:
        assert not any(re.search("[\x00-\x1f\u202e]", text) for text in part.sentences)
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
    assert found["reasons"][-1] == {"kind": "choice", "text": "It estimates.", "facts": {}}
    assert found["evidence"]["grade"] == "fair"
    assert (found["beats_last"], found["expected_loss"]) == (0.97, 0.012)


def saved(root: Path) -> Selection:
    """A pick whose weights are saved as `rote train` saves them."""
    write_voters(root, np.zeros((1, 3, 3), dtype=np.int64), 4)
    (run,) = root.iterdir()
    for step in (1, 2, 3):
        file = get_checkpoint_path(run, step)
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"weights %d" % step)
    return select(root, "last")


def test_the_file_of_the_pick_is_named(tmp_path: Path) -> None:
    selection = saved(tmp_path)
    file = tmp_path / "h-0" / "checkpoints" / "step-00003.safetensors"
    assert selection.pick.file == file
    assert selection.to_json()["pick"]["file"] == str(file)
    assert str(selection).startswith(f"Tentative: step 3 of run0\n{file}\n")
    assert selection.source == str(tmp_path)
    assert str(file) in Text(selection._repr_html_()).words
    file.unlink()
    assert select(tmp_path, "last").pick.file is None


@pytest.mark.parametrize(
    "name", ["step-7.pt", "step-00007.pth", "checkpoints/step-7.ckpt", "step-7.safetensors"]
)
def test_weights_saved_by_a_user_loop_are_found(tmp_path: Path, name: str) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / name).touch()
    (tmp_path / "step-70.pt").touch()
    assert find_checkpoint(tmp_path, 7) == tmp_path / name
    assert find_checkpoint(tmp_path, 8) is None


@pytest.mark.parametrize("contents", ["{", "[]", '{"1": 7}', '{"2": "gone.pt"}', "{}"])
def test_no_checkpoint_is_found_if_the_list_of_files_is_useless(
    tmp_path: Path, contents: str
) -> None:
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
    with pytest.raises(InputError, match="Another file exists"):
        copy_checkpoint(pick, copy.parent)
    assert copy.read_bytes() == b"mine"
    assert list(copy.parent.iterdir()) == [copy]  # no draft is left


def test_failed_copies_are_explained(tmp_path: Path) -> None:
    pick = estimated("../../evil").pick
    with pytest.raises(
        InputError, match=r'No weights were saved .* checkpoints = { keep = "all" }'
    ):
        copy_checkpoint(pick, tmp_path)
    with pytest.raises(InputError, match="The weights are a folder"):
        copy_checkpoint(replace(pick, file=tmp_path), tmp_path)
    (tmp_path / "weights.pt").write_bytes(b"w")
    found = copy_checkpoint(replace(pick, file=tmp_path / "weights.pt"), tmp_path / "out")
    assert found == tmp_path / "out" / "evil-step-00002.pt"  # never outside of the folder
    with pytest.raises(StoreError, match="Cannot write"):
        copy_checkpoint(replace(pick, file=tmp_path / "weights.pt"), tmp_path / "weights.pt" / "x")
