"""Use a trained network: load a checkpoint as a module, and predict the classes of new samples."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rote.arguments import check_path
from rote.errors import InputError
from rote.store import CHECKPOINT_FOLDER, DAMAGED_ARRAYS, check_data_unchanged, make_csv
from rote.workloads.architectures import build_architecture
from rote.workloads.checkpoints import load_checkpoint
from rote.workloads.data.arrays import ArrayFile
from rote.workloads.data.dataset import Array, as_images, as_numbers
from rote.workloads.data.folder import list_files, read_images, read_texts
from rote.workloads.data.given_data import convert_frame
from rote.workloads.data.lookup import find_data_path, load, make_table_layout
from rote.workloads.data.npz_file import DEFAULT_VOCABULARY, count_words
from rote.workloads.data.table import encode_rows, read_frame
from rote.workloads.run_folder import read_division, read_workload
from rote.workloads.spec import TABLE_SUFFIXES, FolderData, NpzData, RunSpec, TableData

_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class Predictions:
    """The predicted classes of some samples.

    Attributes:
        names: of the samples: row numbers from 0, or files.
        classes: the most probable class of each, as a number.
        probabilities: of every class, (samples, classes).
        class_names: of the classes; their numbers where they have no names.

    Example:
        >>> import numpy as np
        >>> found = Predictions(("0",), np.array([1]), np.array([[0.1, 0.9]]), ("cat", "dog"))
        >>> found.class_names[found.classes[0]]
        'dog'
    """

    names: tuple[str, ...]
    classes: Array
    probabilities: Array
    class_names: tuple[str, ...]

    def to_csv(self) -> str:
        """Return a table: sample, predicted class, its probability, and all probabilities."""
        columns = [f"p({name})" for name in self.class_names]
        rows: list[list[object]] = [["sample", "predicted", "probability", *columns]]
        for name, label, row in zip(self.names, self.classes, self.probabilities, strict=True):
            shares = [f"{share:.6f}" for share in row]
            rows.append([name, self.class_names[label], shares[label], *shares])
        return make_csv(rows)


class TrainedModel(nn.Module):
    """A network with the weights of a checkpoint, in eval mode, that takes samples as they are.

    ``model(x)`` normalizes as in training and returns logits: images (samples, height, width,
    channels) with the pixel values of the data, rows of numbers, word counts or token ids.

    Attributes:
        network: the bare network, which takes normalized inputs (images with channels first).
        spec: the run.
        class_names: names of the classes; their numbers where they have no names.
        inputs: what samples are: ``images``, ``features``, ``bag-of-words`` or ``tokens``.
        sample_shape: the shape of one sample.
        checkpoint: the file of the weights.

    Example:
        >>> import tempfile
        >>> from rote.workloads import RunSpec, train
        >>> spec = RunSpec.from_dict({"epochs": 1, "architecture": "mlp",
        ...     "checkpoints": {"keep": "last"},
        ...     "data": {"name": "digits", "train_size": 60}})
        >>> run = train(spec, tempfile.mkdtemp() + "/a")
        >>> load_model(run.path).network.training
        False
    """

    scale: Tensor
    shift: Tensor

    def __init__(self, network: nn.Module, description: dict[str, Any], run: Path) -> None:
        super().__init__()
        self.network = network
        self.spec = RunSpec.from_dict(description["spec"])
        data = description["data"]
        self.class_names = tuple(data.get("class_names") or map(str, range(data["num_classes"])))
        self.inputs: str = data["inputs"]
        self._is_images = self.inputs == "images"
        self.sample_shape = tuple(data["shape"])
        self.run = run
        self.checkpoint: Path | None = None
        scale, shift = _read_normalization(run)
        self.register_buffer("scale", scale, persistent=False)
        self.register_buffer("shift", shift, persistent=False)

    def forward(self, samples: Tensor) -> Tensor:
        """Return the logits of samples as the data hold them."""
        rows = samples.long() if self.inputs == "tokens" else samples.float()
        if self.scale is not None:
            rows = torch.addcmul(self.shift, rows, self.scale)
        logits: Tensor = self.network(rows.permute(0, 3, 1, 2) if self._is_images else rows)
        return logits

    def predict(self, data: Any, *, data_dir: Path | str | None = None) -> Predictions:  # noqa: ANN401
        """Predict the classes of new samples.

        Args:
            data: of the kind that the model was trained on: a table (a path, or a pandas or
                polars frame), a folder of images or texts or one of its files, an ``.npz`` or
                ``.npy`` file, or an array.
            data_dir: where else to look for the training data; ``ROTE_DATA`` by default.

        Returns:
            Classes and probabilities, in the order of the samples.

        Raises:
            InputError: if the samples do not fit, or a table's training data have changed.
        """
        names, samples = read_new_samples(self, data, data_dir)
        if tuple(samples.shape[1:]) != self.sample_shape:
            raise InputError(
                f"Expected samples of shape {self.sample_shape}, as in training, got "
                f"{tuple(samples.shape[1:])}."
            )
        with torch.no_grad():
            parts = [
                self(torch.from_numpy(np.ascontiguousarray(samples[at : at + _AT_ONCE]))).softmax(1)
                for at in range(0, len(samples), _AT_ONCE)
            ]
        found = torch.cat(parts).double().numpy() if parts else np.zeros((0, len(self.class_names)))
        return Predictions(names, found.argmax(1), found, self.class_names)


def load_model(checkpoint: Path | str) -> TrainedModel:
    """Load a network that rote trained, ready to use.

    Args:
        checkpoint: a file of weights (``runs/a/checkpoints/step-00012.safetensors``), or a run
            directory, of which ``rote.select`` chooses the checkpoint.

    Returns:
        A ``torch.nn.Module`` in eval mode, on the CPU.

    Raises:
        InputError: if there is no such run or file, or its run is not one of ``rote train``.
        CorruptRunError: if the run has lost the checkpoint, or is damaged.

    Example:
        >>> import tempfile
        >>> from rote.workloads import RunSpec, train
        >>> spec = RunSpec.from_dict({"epochs": 1, "architecture": "mlp"})
        >>> folder = tempfile.mkdtemp() + "/run"
        >>> run = train(spec, folder)
        >>> model = load_model(folder)
        >>> model.inputs, model.sample_shape, model.checkpoint.name
        ('images', (8, 8, 1), 'step-00001.safetensors')
    """
    path = check_path("checkpoint", checkpoint)
    if path.is_dir():
        run, step = path, _select_step(path)
    elif path.is_file() and path.parent.name == CHECKPOINT_FOLDER:
        run, step = path.parent.parent, _read_step(path)
    else:
        raise InputError(
            f"Expected a run directory, or a file of its {CHECKPOINT_FOLDER} folder, got {path}"
            f"{'' if path.exists() else ', which does not exist'}."
        )
    description = read_workload(run)
    network = _build(description)
    load_checkpoint(run, step, network)
    model = TrainedModel(network, description, run)
    model.checkpoint = run / CHECKPOINT_FOLDER / f"step-{step:05d}.safetensors"
    return model.eval()


def read_new_samples(
    model: TrainedModel,
    data: Any,  # noqa: ANN401  # recognized by its type
    data_dir: Path | str | None = None,
) -> tuple[tuple[str, ...], Array]:
    """Read samples in the form that a model was trained on, with their names.

    Raises:
        InputError: if they are of another kind.
    """
    section = model.spec.data
    frame = None if isinstance(data, str | Path) else convert_frame(data)
    path = check_path("data", data) if isinstance(data, str | Path) else None
    if path is not None and not path.exists():
        raise InputError(f"File not found: {path}.")
    if isinstance(section, TableData):
        return _read_rows(model, section, path, frame, data_dir)
    if path is not None and path.suffix.lower() in TABLE_SUFFIXES:
        raise InputError(f"Expected {model.inputs} as in training, got a table: {path}.")
    if isinstance(section, FolderData) and path is not None and path.suffix != ".npz":
        return _read_files(model, section, path, data_dir)
    names, samples = _read_arrays(model, path, data)
    if model.inputs == "bag-of-words":
        samples = _count_new_words(model, samples, data_dir)
    return names, samples


def _read_rows(
    model: TrainedModel,
    section: TableData,
    path: Path | None,
    frame: Any,  # noqa: ANN401  # a polars frame
    data_dir: Path | str | None,
) -> tuple[tuple[str, ...], Array]:
    check_data_unchanged([model.run], to="encode new samples as in training")
    source = find_data_path(section, data_dir)
    assert source is not None  # a table is a file
    trained = read_frame(source, section.label)
    if path is not None:
        frame = read_frame(path, next(n for n in trained.columns if n != section.label))
    if frame is None:
        raise InputError("Expected a table (a path, or a pandas or polars frame), got an array.")
    rows = encode_rows(trained, frame, make_table_layout(section, source))
    return tuple(map(str, range(len(rows)))), rows


def _read_files(
    model: TrainedModel, section: FolderData, path: Path, data_dir: Path | str | None
) -> tuple[tuple[str, ...], Array]:
    folder, files = list_files(path, is_text=model.inputs == "bag-of-words")
    if model.inputs == "images":
        return tuple(files), read_images(folder, files, section.image_size)
    check_data_unchanged([model.run], to="encode new samples as in training")
    source = find_data_path(section, data_dir)
    assert source is not None  # a folder
    trained = read_texts(source, list(load(section, data_dir).files))
    new = read_texts(folder, files)
    counted = count_words(trained, new, section.vocabulary or DEFAULT_VOCABULARY)[1]
    assert counted is not None
    return tuple(files), counted


def _read_arrays(
    model: TrainedModel,
    path: Path | None,
    data: Any,  # noqa: ANN401
) -> tuple[tuple[str, ...], Array]:
    if path is None:
        samples = np.asarray(data)
    elif path.suffix == ".npy":
        try:
            samples = np.load(path)
        except DAMAGED_ARRAYS as error:
            raise InputError(f"Cannot read {path}: {error}.") from error
    else:
        file = ArrayFile(path)
        is_text = model.inputs == "bag-of-words"
        names = [f"{kind}{split}" for split in ("", "_test", "_train") for kind in ("x", "text")]
        known = [name for name in names if is_text or name.startswith("x")]
        samples = file.read(next((name for name in known if name in file), "x"))
    if model.inputs == "images":
        samples = as_images("x", samples)
    elif model.inputs == "features":
        samples = as_numbers("x", samples).reshape(len(samples), -1)
    return tuple(map(str, range(len(samples)))), samples


def _count_new_words(model: TrainedModel, new: Array, data_dir: Path | str | None) -> Array:
    """Count the words of new texts as those of the training file were."""
    section = model.spec.data
    if not isinstance(section, NpzData):
        raise InputError(
            "The model was trained on texts from memory, whose vocabulary is not stored. Save them "
            "as an .npz with text_train and y_train (or a table), and train on that file."
        )
    check_data_unchanged([model.run], to="encode new samples as in training")
    source = find_data_path(section, data_dir)
    assert source is not None  # a file
    file = ArrayFile(source)
    trained = file.read("text_train" if "x_train" not in file else "x_train")
    if (trained.dtype.kind in "UO") != (new.dtype.kind in "UO"):
        kinds = ("token ids", "texts") if new.dtype.kind in "UO" else ("texts", "token ids")
        raise InputError(f"Expected {kinds[0]}, as in training, got {kinds[1]}.")
    counted = count_words(trained, new, section.vocabulary or DEFAULT_VOCABULARY)[1]
    assert counted is not None
    return counted


def _select_step(run: Path) -> int:
    from rote.selection import select

    return select(run).pick.step


def _read_step(file: Path) -> int:
    try:
        return int(file.stem.removeprefix("step-"))
    except ValueError:
        raise InputError(f"Expected a file such as step-00012.safetensors, got {file}.") from None


def _build(description: dict[str, Any]) -> nn.Module:
    data, architecture = description["data"], RunSpec.from_dict(description["spec"]).architecture
    shape = data["shape"]
    is_images = data["inputs"] == "images"
    return build_architecture(
        architecture.name,
        num_classes=data["num_classes"],
        in_channels=shape[2] if is_images else shape[0],
        image_size=shape[0] if is_images else 1,
        scale=architecture.scale,
        **architecture.options,
    )


def _read_normalization(run: Path) -> tuple[Tensor | None, Tensor | None]:
    found = read_division(run)
    if "scale" not in found:
        return None, None
    return torch.from_numpy(found["scale"]), torch.from_numpy(found["shift"])
