"""Every Python block of the docs is run: by its page's test, or here with what it needs."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import rote

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

ELSEWHERE = {
    "README": "tests/test_readme.py",
    "after-the-verdict": "tests/workloads/test_documentation.py",
    "extending": "tests/cli/test_extending.py",
    "huggingface": "tests/integrations/test_huggingface_docs.py",
    "lightning": "tests/integrations/test_lightning_docs.py",
    "loggers": "tests/store/test_own_logger.py",
    "loops": "tests/integrations/test_huggingface_docs.py",
    "report": "tests/reporting/test_own_charts.py",
    "selection": "tests/selection/test_docs.py",
    "signals": "tests/tracking/test_docs.py",
    "support-a-trainer": "tests/integrations/test_support_docs.py",
    "sweeps": "tests/sweeps/test_space.py",
    "theory": "tests/theory/test_documentation.py",
    "trainers": "tests/integrations/test_trainers_docs.py",
    "tuning": "tests/sweeps/test_tuning.py",
    "workloads": "tests/workloads/test_documentation.py",
}
"""By page, the test that runs its blocks, or those that are doctests."""

HERE = {"many-ranks": 1, "stopping": 1, "theory": 1, "tuning": 1}
"""By page, how many blocks are run below: they take a network or a loop as given."""

NOT_RUN = {
    "cluster": (1, "tests/sweeps/test_ray_executor.py"),
    "sweeps": (1, "tests/sweeps/test_sweep.py"),
    "tuning": (1, "tests/sweeps/test_tuning.py"),
}
"""By page, how many blocks start a cluster or a minute of work, and the test that does the same."""


def blocks(page: str) -> list[str]:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


def plain_blocks(page: str) -> list[str]:
    return [block for block in blocks(page) if not block.startswith(">>> ")]


def test_every_page_with_python_has_its_test() -> None:
    found = [path for path in DOCS.rglob("*.md") if "```python" in path.read_text()]
    # The tutorials are notebooks, which tests/docs/test_tutorials.py runs.
    pages = {path.stem for path in found if path.parent.name != "tutorials"}
    assert pages == ELSEWHERE.keys() | HERE.keys() | NOT_RUN.keys()
    for page, test in ELSEWHERE.items():
        assert f"{page}.md" in (ROOT / test).read_text(encoding="utf-8")
    for _, test in NOT_RUN.values():
        assert (ROOT / test).is_file()


@pytest.mark.parametrize("page", sorted(HERE.keys() | NOT_RUN.keys()))
def test_no_block_is_left_over(page: str) -> None:
    left = HERE.get(page, 0) + NOT_RUN.get(page, (0, ""))[0]
    assert len(plain_blocks(page)) == left


@pytest.mark.parametrize("page", NOT_RUN)
def test_blocks_that_are_not_run_import_what_there_is(page: str) -> None:
    lines = [line for block in plain_blocks(page) for line in block.splitlines()]
    imports = [line for line in lines if re.match(r"(from|import) ", line)]
    assert imports
    for line in imports:
        exec(line, {})


def given() -> dict[str, Any]:
    torch.manual_seed(0)
    model = torch.nn.Linear(20, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    x, y = torch.randn(128, 20), torch.randint(10, (128,))
    tracker = rote.track(model, optimizer, inputs=x, given_labels=y, num_classes=10)
    return {
        "rote": rote,
        "model": model,
        "optimizer": optimizer,
        "tracker": tracker,
        "x": x,
        "y": y,
    }


def test_the_loop_of_stopping_stops_and_names_what_was_saved(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = given()
    saved: list[int] = []

    def train_one_epoch(_: object) -> None:
        names["optimizer"].zero_grad()
        torch.nn.functional.cross_entropy(names["model"](names["x"]), names["y"]).backward()
        names["optimizer"].step()

    names |= {"epochs": 60, "train_one_epoch": train_one_epoch, "save_checkpoint": saved.append}
    names |= {"some_inputs": names["x"], "their_given_labels": names["y"]}
    names["rote"] = rote
    (block,) = plain_blocks("stopping")
    exec(compile(block, "stopping.md", "exec"), names)
    assert 1 <= names["keep"] <= len(saved)
    assert bool(capsys.readouterr().out) == names["rule"].stopped


def test_the_resistance_of_theory_is_counted() -> None:
    names = given()
    names |= {"image": names["x"][0], "wrong_label": torch.tensor(3)}
    (block,) = plain_blocks("theory")
    exec(compile(block, "theory.md", "exec"), names)
    assert names["found"].is_memorized
    assert len(names["found"].losses) == names["found"].steps + 1


def test_the_objective_of_tuning_is_judged_by_its_run(tmp_path: Path) -> None:
    optuna = pytest.importorskip("optuna", reason="needs rote[optuna]")
    from rote.sweeps import create_study, judge_trial, report_trial

    names = given()
    tracker = rote.track(
        names["model"],
        names["optimizer"],
        inputs=names["x"],
        given_labels=names["y"],
        num_classes=10,
        save_to=tmp_path / "run",
    )
    names |= {"optuna": optuna, "judge_trial": judge_trial, "report_trial": report_trial}
    names |= {"tracker": tracker, "run": tmp_path / "run", "epochs": 2, "accuracy": 0.25}
    names["train_one_epoch"] = lambda: None
    exec(compile(plain_blocks("tuning")[-1], "tuning.md", "exec"), names)
    trial = create_study().ask()
    assert names["objective"](trial) == rote.select(tmp_path / "run").pick.validation_accuracy
    tracker.close()


@pytest.mark.ddp
def test_the_lines_of_many_ranks_run_on_one(tmp_path: Path) -> None:
    (block,) = plain_blocks("many-ranks")
    script = (
        "import torch, rote\nfrom torch import distributed\n"
        "from torch.nn.parallel import DistributedDataParallel\n"
        "network, unlabeled, accuracy = torch.nn.Linear(20, 10), torch.randn(128, 20), 0.1\n"
        f"{block}\nprint(reading.susceptibility == reading.drop)\n"
        "distributed.destroy_process_group()\n"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    rank = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=os.environ | rank,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["True"], done.stderr
    assert (tmp_path / "runs" / "first" / "journal.jsonl").is_file()
