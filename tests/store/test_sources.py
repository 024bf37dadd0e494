"""Runs that rote did not write: MLflow, TensorBoard and CSV as people have them."""

import math
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import rote
from fuzz.power_cut import Disk
from rote.errors import (
    CorruptRunError,
    GuessedNamesWarning,
    InputError,
    OddJournalWarning,
    UnreadableRunWarning,
)
from rote.store import read_table
from rote.store.logger import parse_address
from rote.store.loggers.mlflow import split_place
from tests.loggers import log, new_mlflow_store, readings

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("loggers")]

MAPPING = {"susceptibility": "zeta", "train_accuracy": "acc"}


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An experiment with other names, gaps, a repeated step, and names that a table needs."""
    mlflow = pytest.importorskip("mlflow", reason="needs rote[mlflow]")
    uri = new_mlflow_store(tmp_path_factory.mktemp("store"))
    client = mlflow.MlflowClient(tracking_uri=uri)
    experiment = client.create_experiment("theirs")
    client.create_experiment("empty")
    for number in range(2):
        run = client.create_run(experiment, run_name=f"trial {number}").info.run_id
        client.log_param(run, "lr", 0.1)
        for step in range(0, 50, 10):
            client.log_metric(run, "zeta", 0.1 * (number + 1) * step / 3, step=step)
            if step != 20:
                client.log_metric(run, "acc", step / 50, step=step)
        client.log_metric(run, "acc", 0.125, step=10, timestamp=2**42)  # logged again, later
        client.log_metric(run, "score", 0.5, step=45)
        client.log_metric(run, "zeta", math.inf, step=45)
    return f"mlflow:theirs@{uri}"


def test_steps_of_a_foreign_experiment_are_joined(foreign: str) -> None:
    table = read_table(foreign, MAPPING)
    assert list(table.descriptions) == ["trial 0", "trial 1"]
    assert table.descriptions["trial 0"]["params"] == {"lr": "0.1"}
    rows = table.frame.filter(run="trial 1")
    assert rows["step"].to_list() == [0, 10, 20, 30, 40, 45]
    assert rows["row"].to_list() == list(range(6))
    expected = [0.1 * 2 * step / 3 for step in range(0, 50, 10)]
    assert rows["susceptibility"].to_list() == [*expected, None]
    assert not {"zeta", "acc"} & set(rows.columns)  # not twice, under two names
    plain = read_table(foreign).frame.filter(run="trial 1")
    assert rows["susceptibility"].equals(plain["zeta"])
    assert rows["train_accuracy"].to_list() == [0.0, 0.125, None, 0.6, 0.8, None]
    assert rows["metric:score"].to_list() == [None] * 5 + [0.5]
    selection = rote.select(foreign, "staged", mapping=MAPPING)
    assert any(
        "Left out: 4 of 12 checkpoints, with no finite `train_accuracy`" in w
        for w in selection.warnings
    )
    by_score = read_table(foreign, {"test_accuracy": "score"})
    assert by_score.frame["test_accuracy"].max() == 0.5


def test_an_experiment_can_be_given_by_its_number_and_its_file(foreign: str) -> None:
    path = foreign.partition("sqlite:///")[2]
    assert len(read_table(f"mlflow:1@{path}").descriptions) == 2


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("thiers", r"got 'thiers'; there are: Default, empty, theirs. Did you mean 'theirs'\?"),
        ("empty", "mlflow:empty@.* has no runs"),
    ],
)
def test_missing_experiments_are_refused(foreign: str, place: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_table(foreign.replace("theirs", place))


def test_looking_for_a_store_does_not_create_one(tmp_path: Path) -> None:
    pytest.importorskip("mlflow", reason="needs rote[mlflow]")
    with pytest.raises(InputError, match=r"MLflow store not found: .*no\.db"):
        read_table(f"mlflow:e@sqlite:///{tmp_path}/no.db")
    assert list(tmp_path.iterdir()) == []


def untyped_text() -> Any:
    """A text without metadata, as some writers leave it from the second event of a tag on."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.compat.proto.tensor_pb2 import TensorProto

    tensor = TensorProto(dtype=7, string_val=[b"\xff not json"])
    return Event(step=9, summary=Summary(value=[Summary.Value(tag="note", tensor=tensor)]))


def test_scalars_of_others_are_read_from_every_directory(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs rote[tensorboard]")
    from torch.utils.tensorboard import SummaryWriter

    for name in ("a", "b/deep"):
        with SummaryWriter(str(tmp_path / name)) as writer:
            for step in range(1, 6):
                writer.add_scalar("zeta", step / 3, step)
                writer.add_scalar("acc/train", 0.1 * step, step, new_style=True)
                writer.add_scalar("odd", math.nan, step)
            writer.add_histogram("weights", np.arange(5.0), 1)
            writer.add_text("note", "hello", 9)
            writer.file_writer.add_event(untyped_text())
    with SummaryWriter(str(tmp_path / "a"), purge_step=4, filename_suffix=".2") as writer:
        writer.add_scalar("zeta", 7.0, 4)
    mapping = {"susceptibility": "zeta", "train_accuracy": "acc/train"}
    table = read_table(f"tensorboard:{tmp_path}", mapping)
    assert list(table.descriptions) == ["a", "b/deep"]
    assert table.paths["b/deep"] == tmp_path / "b" / "deep"
    rows = table.frame.filter(run="b/deep")
    assert rows["step"].to_list() == [1, 2, 3, 4, 5]
    exact = [step / 3 for step in range(1, 6)]
    assert rows["susceptibility"].to_list() == [float(np.float32(value)) for value in exact]
    assert rows["train_accuracy"].to_list() == pytest.approx([0.1 * k for k in range(1, 6)])
    assert rows["odd"].null_count() == 5
    again = table.frame.filter(run="a")
    assert again["step"].to_list() == [1, 2, 3, 4]  # step 5 was purged, 4 written again
    assert again["susceptibility"].to_list()[3] == 7.0
    assert "weights" not in table.frame.columns


def test_foreign_scalars_in_a_tracker_directory_become_metrics(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs rote[tensorboard]")
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        for step in range(1, 40):
            writer.add_scalar("loss", step / 4, step)
        log(f"tensorboard:{tmp_path}", readings(0)[:5])
    frame = read_table(f"tensorboard:{tmp_path}").frame
    assert frame["step"].to_list() == [1, 2, 3, 4, 5]
    assert frame["loss"].to_list() == [0.25, 0.5, 0.75, 1.0, 1.25]
    assert frame["run"].to_list() == [tmp_path.name] * 5


def test_invalid_log_directories_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Directory not found: '.*nowhere'"):
        read_table(f"tensorboard:{tmp_path}/nowhere")
    with pytest.raises(InputError, match="No event files in '.*'"):
        read_table(f"tensorboard:{tmp_path}")
    pytest.importorskip("tensorboard", reason="needs rote[tensorboard]")
    (tmp_path / "events.out.tfevents.1").write_bytes(b"this is no event file at all")
    with pytest.raises(CorruptRunError, match="is damaged: a length"):
        read_table(f"tensorboard:{tmp_path}")


def csv(tmp_path: Path, text: str) -> str:
    (tmp_path / "table.csv").write_text(text)
    return f"csv:{tmp_path}/table.csv"


def test_a_csv_file_is_a_table(tmp_path: Path) -> None:
    text = (
        "run,step,susceptibility,acc,optimizer,flags,score\n"
        "b,2,0.1,0.5,adam,,1\n"
        "b,1,0.30000000000000004,,adam,non_finite;dominated,\n"
        "a,1,inf,0.25,sgd,,3\n"
        "b,1,, 0.75 ,adam,,4\n"  # the rest of what happened at that step
    )
    table = read_table(csv(tmp_path, text), {"train_accuracy": "acc"})
    assert table.frame.select("run", "row", "step").rows() == [
        ("a", 0, 1),
        ("b", 0, 1),
        ("b", 1, 2),
    ]
    assert table.frame["susceptibility"].to_list() == [None, 0.30000000000000004, 0.1]
    assert table.frame["train_accuracy"].to_list() == [0.25, 0.75, 0.5]
    assert table.frame["flags"].to_list()[2] == []
    assert table.frame["metric:score"].to_list() == [3, 4, 1]
    assert "optimizer" not in table.frame.columns


def test_flags_of_a_csv_file_count(tmp_path: Path) -> None:
    text = "step,susceptibility,train_accuracy,flags\n1,0.5,0.5,diverging;dominated\n2,0.1,0.7,\n"
    selection = rote.select(csv(tmp_path, text), "last")
    assert any("(`diverging`)" in warning for warning in selection.warnings)
    assert selection.pick.run == "table"


def test_other_names_for_runs_and_steps(tmp_path: Path) -> None:
    source = csv(tmp_path, "trial,epoch,step,z\nx,1,100,0.5\nx,2,200,0.25\n")
    mapping = {"run": "trial", "step": "epoch", "susceptibility": "z"}
    table = read_table(source, mapping)
    assert table.frame.select("run", "step", "susceptibility", "metric:step").rows() == [
        ("x", 1, 0.5, 100.0),
        ("x", 2, 0.25, 200.0),
    ]
    with pytest.raises(InputError, match="`mapping` renames run or step in csv: files only"):
        read_table(tmp_path, {"step": "epoch"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"table\.csv is not a CSV file with a header: "),
        ("step,susceptibility\n", "a header and no checkpoints"),
        ("run,stp\na,1\n", r"has no column 'step'. It has: run, stp. Did you mean 'stp'\?"),
        ("step,susceptibility\n1,high\n", "column 'susceptibility' of .* got 'high' in line 2"),
        ("step,train_accuracy\n1,0.5\n2,'0,5'\n", 'not a CSV file|got "\'0" in line 3'),
        ("step,train_accuracy\n1,0,5\n", "more fields than .*points, not commas"),
        ("step;train_accuracy\n1;0,5\n", "got '0,5' in line 2. Write decimal points, not commas"),
        ("step;train_accuracy\n1,5;0.5\n", "got 1,5 in line 2. Write decimal points, not commas"),
        ("step|train_accuracy\n1|0.5\n", "commas, semicolons or tabs separate columns"),
        ("step,loss_before\n1,1\n1.5,1\n", r"to hold whole steps, got 1\.5 in line 3"),
        ("step,loss_before\n1,1\n,1\n", "to hold whole steps, got nothing in line 3"),
        ("run,step\na,1\n,2\n", "column 'run' of .* to name runs, got nothing in line 3"),
    ],
)
def test_a_bad_csv_file_is_refused_with_the_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_table(csv(tmp_path, text))


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("start", ["", "\ufeff", "\n"], ids=["plain", "bom", "empty line"])
def test_cells_may_be_separated_as_spreadsheets_do(
    tmp_path: Path, separator: str, start: str
) -> None:
    rows = [("run", " step ", '"loss, mine; or\tyours"', "flags"), ("a", "1", "0.5", "dominated")]
    text = "\n".join(separator.join(row) for row in rows)
    frame = read_table(csv(tmp_path, start + text + "\n")).frame
    assert frame.select("run", "step", "loss, mine; or\tyours").rows() == [("a", 1, 0.5)]
    assert frame["flags"].to_list() == [["dominated"]]


def test_a_run_counts_once_however_its_path_is_written(
    tmp_path: Path, foreign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    csv(tmp_path, "run,step,susceptibility\na,1,0.5\nb,1,0.25\nb,2,0.5\n")
    (tmp_path / "link.csv").symlink_to("table.csv")
    log("own/mine", readings(0)[:2], name="mine")
    (tmp_path / "again").symlink_to("own")
    spellings = ["csv:table.csv", "csv:./table.csv", f"csv:{tmp_path}/table.csv", "csv:link.csv"]
    spellings += ["own", "./own/mine", "again", foreign, foreign.replace("theirs", "1")]
    table = read_table(spellings)
    assert list(table.descriptions) == ["a", "b", "mine", "trial 0", "trial 1"]
    counts = table.frame.group_by("run", maintain_order=True).len()["len"].to_list()
    assert counts == [1, 2, 2, 6, 6]


def test_directories_of_event_files_may_overlap(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs rote[tensorboard]")
    for seed, name in enumerate(("a", "b")):
        log(f"tensorboard:{tmp_path}/logs", readings(seed)[:3], name=name)
    places = [f"tensorboard:{tmp_path}/logs/{end}" for end in ("b", "", "./a")]
    table = read_table(places)
    alone = read_table(places[1])
    assert table.frame.equals(alone.frame.select(table.frame.columns))
    assert list(table.descriptions) == ["a", "b"]


def test_a_csv_file_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="File not found: '.*no.csv'"):
        read_table(f"csv:{tmp_path}/no.csv")
    with pytest.raises(InputError, match="Not a file: "):
        read_table(f"csv:{tmp_path}")


@pytest.mark.parametrize("epoch", ["Epoch", "epoch"])  # the second is a column of rote's, too
def test_columns_of_a_csv_file_are_read_by_what_they_probably_mean(
    tmp_path: Path, epoch: str
) -> None:
    (tmp_path / "a.csv").write_text(f"{epoch},acc,val acc,loss\n1,0.1,0.2,2\n")
    meant = f"validation_accuracy=val acc, train_accuracy=acc, step={epoch}"
    with pytest.warns(GuessedNamesWarning, match=meant):
        found = read_table(f"csv:{tmp_path}/a.csv").frame
    assert found["step"].to_list() == [1]
    assert found["validation_accuracy"].to_list() == [0.2]
    assert found["train_accuracy"].to_list() == [0.1]
    mapped = read_table(f"csv:{tmp_path}/a.csv", {"step": "loss", "test_accuracy": "val acc"}).frame
    assert mapped["step"].to_list() == [2]
    assert mapped["test_accuracy"].to_list() == [0.2]
    assert "train_accuracy" not in mapped.columns or mapped["train_accuracy"].null_count() == 1
    (tmp_path / "a.csv").write_text("when,acc\n1,0.1\n")
    with pytest.raises(InputError, match=r"`--map step=COLUMN` names another one"):
        read_table(f"csv:{tmp_path}/a.csv")


def test_a_path_that_exists_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log(tmp_path / "mlflow:runs", readings(0)[:2], name="mine")
    assert list(read_table("mlflow:runs").descriptions) == ["mine"]
    sources = "csv:, mlflow:, tensorboard:, wandb:, got"
    with pytest.raises(InputError, match=rf"one of {sources} 'run:7'\. A directory .* './run:7'"):
        read_table("run:7")
    with pytest.raises(InputError, match="Directory not found: run:7"):
        read_table("./run:7")
    with pytest.raises(InputError, match=r"got 'tensorbord:x'. Did you mean 'tensorboard'\?"):
        read_table("tensorbord:x")
    with pytest.raises(InputError, match=r"project 'project' .*wandb\. To read .* wandb:DIRECTORY"):
        read_table("wandb:project")
    with pytest.raises(InputError, match=f"{sources} 'wandb-offline:wandb'"):
        read_table("wandb-offline:wandb")


def test_own_runs_can_be_mapped_and_mixed(tmp_path: Path) -> None:
    log(tmp_path / "own" / "a", readings(0), name="a")
    other = csv(tmp_path, "run,step,zeta,acc\na,1,0.5,0.5\nb,1,0.25,0.5\n")
    table = read_table([tmp_path / "own", other], MAPPING)
    names = ["a (own/a)", "a (table.csv/a)", "b"]
    assert list(table.descriptions) == names
    ours = table.frame.filter(run=names[0])
    assert ours["susceptibility"].to_list() == [r.susceptibility for r in readings(0)]
    assert table.frame.filter(run=names[1])["susceptibility"].to_list() == [0.5]
    by_plain = read_table(tmp_path / "own", {"susceptibility": "susceptibility_plain"})
    assert by_plain.frame["susceptibility"].to_list() == [
        r.susceptibility_plain for r in readings(0)
    ]


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"susceptibility": "zata"}, r"got 'zata'; there are: .*zeta.* Did you mean 'zeta'\?"),
        ({"suseptibility": "zeta"}, r"got 'suseptibility'. Did you mean 'susceptibility'\?"),
    ],
)
def test_mapping_to_missing_columns_is_refused(
    tmp_path: Path, mapping: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read_table(csv(tmp_path, "step,zeta\n1,0.5\n"), mapping)


def test_a_table_cannot_be_mapped_again(tmp_path: Path) -> None:
    table = read_table(csv(tmp_path, "step,susceptibility\n1,0.5\n"))
    with pytest.raises(InputError, match="takes no `mapping`"):
        rote.select(table, mapping=MAPPING)


@pytest.mark.parametrize(
    ("text", "place", "uri"),
    [
        ("mlflow:/Users/me@x.org/exp", "/Users/me@x.org/exp", None),
        ("mlflow:/Users/me@x.org/exp@databricks", "/Users/me@x.org/exp", "databricks"),
        ("mlflow:e@http://user:word@host:5000", "e", "http://user:word@host:5000"),
        ("MLflow:e@./mlflow.db", "e", "./mlflow.db"),
    ],
)
def test_an_mlflow_address_is_split_into_experiment_and_store(
    text: str, place: str, uri: str | None
) -> None:
    address = parse_address(text, "runs", "read")
    assert address is not None
    assert address.kind == "mlflow"
    assert split_place(address.place) == (place, uri)


@pytest.mark.parametrize("place", ["sqlite:///m.db", "http://127.0.0.1:5000"])
def test_a_store_is_not_taken_for_an_experiment(place: str) -> None:
    with pytest.raises(InputError, match=f"store without an experiment. Write mlflow:NAME@{place}"):
        split_place(place)


def test_a_csv_row_with_too_few_cells_is_refused_with_its_line(tmp_path: Path) -> None:
    table = tmp_path / "runs.csv"
    table.write_text("step,susceptibility,train_accuracy\n1,0.1,0.2\n\n2,0.3\n")
    with pytest.raises(InputError, match=r"Line 4 of .* has 2 cells, .* has 3\. Leave empty"):
        read_table(f"csv:{table}")
    table.write_text("step,susceptibility,train_accuracy\n1,0.1,0.2\n2,0.3,\n")
    assert read_table(f"csv:{table}").frame["train_accuracy"].to_list() == [0.2, None]


def test_csv_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    table = tmp_path / "runs.csv"
    table.write_text("step,a, a\n1,0.1,0.2\n")
    with pytest.raises(InputError, match=r"2 columns with the name 'a'\. Rename"):
        read_table(f"csv:{table}")


def test_repeated_steps_of_a_csv_file_are_reported(tmp_path: Path) -> None:
    text = "step,susceptibility,f1\n1,0.1,0.5\n2,0.2,0.6\n1,0.3,\n2,0.2,0.6\n"
    with pytest.warns(OddJournalWarning, match="at 1 steps, the first at step 1 of 'table'; the"):
        frame = read_table(csv(tmp_path, text)).frame
    assert frame["susceptibility"].to_list() == [0.3, 0.2]


def test_event_files_are_on_the_disk_before_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorboard", reason="needs rote[tensorboard]")
    monkeypatch.setenv("ROTE_FSYNC", "1")
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
    disk = Disk(tmp_path / "before", cut_at=1000, rng=Random(0))
    with disk.watched():
        log(f"tensorboard:{tmp_path / 'before' / 'log'}", readings(0))
        disk.copy_to(tmp_path / "after")
    found = read_table(f"tensorboard:{tmp_path / 'after'}").frame
    assert found["step"].to_list() == [reading.step for reading in readings(0)]


def test_one_bad_tensorboard_run_is_named_and_left_out(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs rote[tensorboard]")
    log(f"tensorboard:{tmp_path / 'good'}", readings(0))
    log(f"tensorboard:{tmp_path / 'bad'}", readings(1))
    (file,) = (tmp_path / "bad").iterdir()
    file.write_bytes(b"no event file at all")
    with pytest.warns(UnreadableRunWarning, match="Left out .*bad: .* is damaged"):
        table = read_table(f"tensorboard:{tmp_path}")
    assert [str(path) for path in table.paths.values()] == [str(tmp_path / "good")]
    assert list(table.unreadable) == [str(tmp_path / "bad")]
