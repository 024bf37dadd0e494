"""Probing after the fact, against what was measured while the run was trained."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file, save_model
from torch import nn

import rote
from rote.errors import InputError
from rote.tracking import probe_checkpoints, sort_checkpoints
from rote.tracking.past_checkpoints import read_weights


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[rote.Reading]]:
    """Four epochs with momentum, probed live; a file with model and optimizer after each."""
    folder = tmp_path_factory.mktemp("trained")
    torch.manual_seed(0)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = torch.randn(64, 6), torch.randint(3, (64,))
    torch.save({"inputs": x, "labels": y}, folder / "train.pt")
    tracker = rote.track(model, optimizer, inputs=x[:32], num_classes=3, seed=5)
    for epoch in range(8, 12):
        for _ in range(3):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        tracker.probe(train_accuracy=tracker.accuracy(x, y))
        saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(saved, folder / f"epoch-{epoch}.pt")
    return folder, tracker.readings


def samples(folder: Path) -> tuple[torch.Tensor, torch.Tensor]:
    found = torch.load(folder / "train.pt", weights_only=True)
    return found["inputs"], found["labels"]


def test_with_the_optimizers_state_every_reading_is_that_of_the_live_run(
    trained: tuple[Path, list[rote.Reading]],
) -> None:
    folder, live = trained
    x, y = samples(folder)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    found = probe_checkpoints(
        sort_checkpoints(folder.glob("epoch-*.pt")), model, optimizer,
        inputs=x[:32], num_classes=3, seed=5, train=(x, y),
    )  # fmt: skip
    assert found.optimizer_states == 4
    assert [reading.to_dict() | {"seconds": 0} for reading in found.readings] == [
        reading.to_dict() | {"seconds": 0} for reading in live
    ]
    assert all(torch.equal(before[name], now) for name, now in model.state_dict().items())
    assert not optimizer.state


def test_weights_alone_give_the_plain_step_of_the_live_run(
    trained: tuple[Path, list[rote.Reading]], tmp_path: Path
) -> None:
    folder, live = trained
    for path in folder.glob("epoch-*.pt"):
        model = network()
        read_weights(path).load_into(model)
        save_model(model, str(tmp_path / f"{path.stem}.safetensors"))
    x, _ = samples(folder)
    found = probe_checkpoints(
        sort_checkpoints(tmp_path.iterdir()), network(), inputs=x[:32], num_classes=3, seed=5
    )
    assert found.optimizer_states == 0
    assert [reading.drop for reading in found.readings] == [reading.drop_plain for reading in live]
    assert found.readings[-1].susceptibility == live[-1].susceptibility_plain


def test_a_run_directory_can_be_selected_from_and_names_the_files(
    trained: tuple[Path, list[rote.Reading]], tmp_path: Path
) -> None:
    folder, _ = trained
    x, y = samples(folder)
    files = sort_checkpoints(folder.glob("epoch-*.pt"))
    optimizer = torch.optim.SGD((model := network()).parameters(), lr=0.1, momentum=0.9)
    probe_checkpoints(
        files, model, optimizer, inputs=x[:32], num_classes=3, train=(x, y), save_to=tmp_path / "a"
    )
    steps = json.loads((tmp_path / "a" / "checkpoints.json").read_text())
    assert steps == {str(step): str(file) for step, file in enumerate(files, start=1)}
    assert str(rote.select(tmp_path, rule="last").pick.step) in steps


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "model.backbone."])
def test_the_prefix_of_a_wrapper_is_looked_through(tmp_path: Path, prefix: str) -> None:
    model, other = network(), network()
    weights = {prefix + name: tensor for name, tensor in model.state_dict().items()}
    save_file({**weights, "criterion.weight": torch.ones(3)}, tmp_path / "a.safetensors")
    read_weights(tmp_path / "a.safetensors").load_into(other)
    pairs = zip(model.state_dict().values(), other.state_dict().values(), strict=True)
    assert all(torch.equal(mine, theirs) for mine, theirs in pairs)


def test_tied_weights_that_were_saved_once_are_found(tmp_path: Path) -> None:
    def tied() -> nn.Module:
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        model[1].weight = model[0].weight
        return model

    model, other = tied(), tied()
    save_model(model, str(tmp_path / "a.safetensors"))
    read_weights(tmp_path / "a.safetensors").load_into(other)
    assert torch.equal(other[1].weight, model[0].weight)
    assert other[0].weight is other[1].weight


class Surprise:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (exec, ("raise SystemExit('code from a file was run')",))


@pytest.mark.parametrize(
    ("contents", "complaint"),
    [
        ({"weight": Surprise()}, "not a file of tensors and plain values"),
        (nn.Linear(6, 3), r"a pickled torch\.nn\.modules\.linear\.Linear, which is not loaded"),
        ({"epoch": 3, "note": "none"}, "has no state_dict. It holds: epoch, note"),
        ([1, 2], "has no state_dict. It holds: a list"),
        ({1: torch.ones(2)}, "has no state_dict. It holds: 1"),
        (
            {"0.weight": torch.ones(2, 2)},
            "missing: `0.bias`, `1.weight`, `1.bias` and 5 more; unknown: none",
        ),
        (nn.Linear(6, 16).state_dict(), "unknown: `weight`, `bias`"),
    ],
)
def test_files_that_are_no_weights_of_this_model_are_refused(
    tmp_path: Path, contents: object, complaint: str
) -> None:
    torch.save(contents, tmp_path / "a.pt")
    with pytest.raises(InputError, match=complaint):
        probe_checkpoints([tmp_path / "a.pt"], network(), inputs=torch.ones(4, 6), num_classes=3)


def test_other_shapes_missing_files_and_no_files_are_refused(tmp_path: Path) -> None:
    model = nn.Linear(6, 4)
    save_model(model, str(tmp_path / "a.safetensors"))
    with pytest.raises(InputError, match=r"`weight` .* to have shape \(3, 6\), got \(4, 6\)"):
        read_weights(tmp_path / "a.safetensors").load_into(nn.Linear(6, 3))
    with pytest.raises(InputError, match="No such file"):
        read_weights(tmp_path / "b.pt")
    (tmp_path / "c.safetensors").write_bytes(b"\0" * 30)
    with pytest.raises(InputError, match=r"c\.safetensors is not a file of tensors"):
        read_weights(tmp_path / "c.safetensors")
    with pytest.raises(InputError, match="No checkpoints given"):
        probe_checkpoints([], model, inputs=torch.ones(4, 6), num_classes=4)


def test_another_optimizer_than_the_saved_one_is_refused(
    trained: tuple[Path, list[rote.Reading]],
) -> None:
    folder, _ = trained
    model = network()
    optimizer = torch.optim.SGD([model[0].weight], lr=0.1)
    with pytest.raises(InputError, match="Pass the optimizer that trained the model"):
        probe_checkpoints(
            [folder / "epoch-8.pt"], model, optimizer, inputs=torch.ones(4, 6), num_classes=3
        )


def test_settings_that_one_file_brings_do_not_reach_the_next(
    trained: tuple[Path, list[rote.Reading]], tmp_path: Path
) -> None:
    folder, live = trained
    x, _ = samples(folder)
    weights = torch.load(folder / "epoch-9.pt", weights_only=True)["model"]
    torch.save(weights, tmp_path / "epoch-9.pt")
    files = [folder / "epoch-8.pt", tmp_path / "epoch-9.pt"]
    found = probe_checkpoints(files, network(), inputs=x[:32], num_classes=3, seed=5)
    assert found.optimizer_states == 1
    assert [found.readings[0].drop, found.readings[1].drop] == [live[0].drop, live[1].drop_plain]


def test_the_state_of_another_class_of_optimizer_is_refused(tmp_path: Path) -> None:
    model = network()
    adam = torch.optim.Adam(model.parameters())
    torch.save({"model": model.state_dict(), "optimizer": adam.state_dict()}, tmp_path / "a.pt")
    with pytest.raises(InputError, match="lacks dampening, momentum, nesterov"):
        probe_checkpoints([tmp_path / "a.pt"], model, inputs=torch.ones(4, 6), num_classes=3)


@pytest.mark.parametrize("junk", [b"junk", b"", b"PK\x03\x04"])
def test_files_with_junk_are_refused(tmp_path: Path, junk: bytes) -> None:
    (tmp_path / "a.pt").write_bytes(junk)
    with pytest.raises(InputError, match="tensors and plain values, but a damaged file"):
        read_weights(tmp_path / "a.pt")


def test_the_entry_can_be_named(tmp_path: Path) -> None:
    weights = nn.Linear(2, 2).state_dict()
    torch.save({"ema": weights, "model": nn.Linear(2, 2).state_dict()}, tmp_path / "a.pt")
    assert torch.equal(read_weights(tmp_path / "a.pt", "ema").weights["bias"], weights["bias"])
    with pytest.raises(InputError, match="under 'best'"):
        read_weights(tmp_path / "a.pt", "best")
