"""The end of a journal that somebody is writing."""

from pathlib import Path

import pytest

from rote.store import read_run, seal_journal
from rote.sweeps.progress import LastReading, read_last
from rote.workloads import train
from tests.workloads.small_runs import small_spec

pytestmark = pytest.mark.slow


def test_the_last_reading_is_seen(tmp_path: Path) -> None:
    assert read_last(tmp_path / "nothing") == LastReading()
    train(small_spec(epochs=60), tmp_path / "run")
    last = read_run(tmp_path / "run").readings[-1]
    seen = read_last(tmp_path / "run")
    accuracies = (last.metrics["train_accuracy"], last.validation_accuracy)
    assert seen == LastReading(60, last.susceptibility, *accuracies)
    assert None not in accuracies
    assert (tmp_path / "run" / "journal.jsonl").stat().st_size > 20_000  # more than is read


@pytest.mark.parametrize(
    ("journal", "step"),
    [
        ('{"kind":"reading","step":1}\n{"kind":"reading","st', 1),
        (
            '{"kind":"reading","step":1}\n{"kind":"reading","step":2}\n{"kind":"resume","step":1}\n',
            1,
        ),
        ('{"kind":"reading","step":1}\n{"kind":"resume","step":0}\n', 0),
        ("", 0),
    ],
)
def test_truncated_and_void_lines_do_not_count(journal: str, step: int, tmp_path: Path) -> None:
    whole, end, truncated = journal.replace('{"kind', '{"schema":1,"kind').rpartition("\n")
    (tmp_path / "journal.jsonl").write_text(whole + end)
    seal_journal(tmp_path / "journal.jsonl")
    with (tmp_path / "journal.jsonl").open("a") as file:
        file.write(truncated)
    assert read_last(tmp_path).step == step
