"""Folders as trainers leave them, and those in which one run cannot be told."""

from pathlib import Path

import pytest

from rote.errors import InputError
from rote.tracking import sort_checkpoints
from rote.tracking.past_checkpoints import look_into

LAYOUTS: dict[str, tuple[list[str], list[str], list[str]]] = {
    "Hugging Face": (
        ["checkpoint-1000/model.safetensors", "checkpoint-500/model.safetensors",
         "checkpoint-500/optimizer.pt", "checkpoint-500/global_step500/rank0.pt",
         "model.safetensors", "training_args.bin"],
        ["checkpoint-500/model.safetensors", "checkpoint-1000/model.safetensors"],
        ["model.safetensors"],
    ),
    "one checkpoint of it": (
        ["model.safetensors", "optimizer.pt", "global_step500/rank0.pt"],
        ["model.safetensors"],
        [],
    ),
    "Lightning": (
        ["version_0/checkpoints/epoch=9-step=90.ckpt", "version_0/hparams.yaml",
         "version_0/checkpoints/epoch=10-step=100.ckpt", "version_0/checkpoints/last.ckpt",
         "version_0/checkpoints/last-v1.ckpt"],
        ["version_0/checkpoints/epoch=9-step=90.ckpt",
         "version_0/checkpoints/epoch=10-step=100.ckpt"],
        ["version_0/checkpoints/last-v1.ckpt", "version_0/checkpoints/last.ckpt"],
    ),
    "files": (["10.pt", "9.pt", "best.pt", ".8.pt"], ["9.pt", "10.pt"], ["best.pt"]),
    "files without numbers": (["a.pt", "b.pt"], ["a.pt", "b.pt"], []),
}  # fmt: skip


def made(folder: Path, names: list[str]) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")
    return folder


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_checkpoints_of_one_run_are_found(layout: str, tmp_path: Path) -> None:
    names, files, left_out = LAYOUTS[layout]
    found = look_into(made(tmp_path, names))
    assert sort_checkpoints(found.files) == [tmp_path / name for name in files]
    assert list(found.left_out) == [tmp_path / name for name in left_out]


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        (["note.txt", "a/b/c.json"], "or in folders below it. Check the path"),
        (["checkpoint-5/optimizer.pt"], "No checkpoints"),
        (
            ["version_0/checkpoints/epoch=1.ckpt", "version_1/checkpoints/epoch=1.ckpt"],
            "of several runs, some in .*version_0/checkpoints and some in .*version_1/checkpoints",
        ),
        (["1.pt", "b/2.pt"], "of several runs, some in"),
        (["c-5/model-00001-of-00002.safetensors"], "weights in several .*max_shard_size"),
    ],
)
def test_a_folder_that_is_not_one_run_is_refused(
    names: list[str], complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=complaint):
        look_into(made(tmp_path, names))
