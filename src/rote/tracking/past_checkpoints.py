"""Probing of saved checkpoints after training: finding, reading and probing them."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, TypeGuard

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.optim import Optimizer

from rote.errors import InputError, MissingWeightsError
from rote.labels import LabelSampler
from rote.probe import Inputs, LossFunction, ProbePolicy
from rote.records import Reading
from rote.snapshot import preserved
from rote.store import SaveTo, check_free, parse_targets
from rote.tracking.make_tracker import track

SAFETENSORS = ".safetensors"
SUFFIXES = (SAFETENSORS, ".pt", ".pth", ".ckpt", ".bin")
_WEIGHTS = ("state_dict", "model_state_dict", "model_state", "model", "net", "weights")
_OPTIMIZERS = ("optimizer_state_dict", "optimizer_states", "optimizer_state", "optimizer")


@dataclass(frozen=True)
class SavedWeights:
    """The contents of a checkpoint file.

    Attributes:
        path: the file.
        weights: the saved tensors by name.
        optimizer: the saved state of the optimizer; None unless there is exactly one.
    """

    path: Path
    weights: Mapping[str, Tensor]
    optimizer: Mapping[str, Any] | None = None

    def load_into(self, model: nn.Module) -> None:
        """Load the weights into a model.

        Names may have a common prefix, as from DDP, torch.compile or a LightningModule.

        Raises:
            InputError: if they do not fit; the model is then unchanged.
        """
        wanted = model.state_dict()
        prefix = _find_prefix(self.weights, wanted)
        found = {
            name: self.weights[prefix + name] for name in wanted if prefix + name in self.weights
        }
        found |= _find_shared(wanted, found)
        self._check_fit(wanted, found, prefix)
        model.load_state_dict(found)

    def _check_fit(
        self, wanted: Mapping[str, Tensor], found: Mapping[str, Tensor], prefix: str
    ) -> None:
        missing = [name for name in wanted if name not in found]
        unknown = [] if prefix else [name for name in self.weights if name not in wanted]
        if missing or unknown:
            raise InputError(
                f"The weights in {self.path} are not those of this model (missing: "
                f"{_list_some(missing)}; unknown: {_list_some(unknown)}). Check the model."
            )
        for name, tensor in wanted.items():
            if tensor.shape != found[name].shape:
                raise InputError(
                    f"Expected `{name}` in {self.path} to have shape {tuple(tensor.shape)}, got "
                    f"{tuple(found[name].shape)}. Check the model and its number of classes."
                )


def read_weights(path: Path | str, key: str | None = None) -> SavedWeights:
    """Read a checkpoint file; pickled objects other than tensors and plain values are refused.

    Args:
        path: a safetensors file, or one of ``torch.save``.
        key: the entry that holds the weights; the usual ones are tried by default.

    Raises:
        InputError: if the file is missing or damaged, or holds no weights.
    """
    path = Path(path)
    try:
        if path.suffix == SAFETENSORS:
            return SavedWeights(path, load_file(path))
        contents = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise InputError(f"Cannot read weights from {path}: {error}.") from error
    except Exception as error:  # unpickling an arbitrary file may raise any exception
        raise InputError(
            f"{path} is not a file of tensors and plain values, but {explain_refused(error)}. Save "
            "`model.state_dict()`, best as safetensors."
        ) from error
    return SavedWeights(path, _find_weights(contents, path, key), _find_optimizer(contents))


def explain_refused(error: Exception) -> str:
    """Explain why ``torch.load`` refused a file with ``weights_only=True``.

    torch suggests ``weights_only=False``, but then the file could run any code.
    """
    named = re.search(r"GLOBAL (\S+) was not an allowed global", str(error))
    if named is not None:
        return f"a pickled {named[1]}, which is not loaded, as it could run code"
    if isinstance(error, UnpicklingError):
        return "pickled objects, which are not loaded, as they could run code"
    reason = str(error).partition("\n")[0].partition(". ")[0].rstrip(".")
    return f"a damaged file, or not one of weights ({reason or type(error).__name__})"


def _find_weights(contents: object, path: Path, key: str | None) -> Mapping[str, Tensor]:
    if isinstance(contents, Mapping):
        places = [contents.get(name) for name in (_WEIGHTS if key is None else (key,))]
        for place in places if key is not None else [contents, *places]:
            if _is_weights(place):
                return place
        keys = ", ".join(str(name) for name in list(contents)[:10])
    else:
        keys = f"a {type(contents).__name__}"
    raise MissingWeightsError(
        f"{path} has no state_dict{'' if key is None else f' under {key!r}'}. It holds: "
        f"{keys or 'nothing'}.",
        "Name the entry with `key`.",
    )


def _is_weights(place: object) -> TypeGuard[Mapping[str, Tensor]]:
    return (
        isinstance(place, Mapping)
        and len(place) > 0
        and all(isinstance(name, str) for name in place)
        and all(isinstance(value, Tensor) for value in place.values())
    )


def _find_optimizer(contents: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for name in _OPTIMIZERS:
        found = contents.get(name)
        if isinstance(found, list) and len(found) == 1:  # Lightning
            found = found[0]
        if isinstance(found, Mapping) and {"state", "param_groups"} <= set(found):
            return found
    return None


def _find_prefix(weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> str:
    """Return the prefix of every name of the model in the file; empty if that is unclear."""
    first = next(iter(wanted), "")
    if not first or first in weights:
        return ""
    prefixes = [name.removesuffix(first) for name in weights if name.endswith("." + first)]
    complete = [p for p in prefixes if all(p + name in weights for name in wanted)]
    return complete[0] if len(complete) == 1 else ""


def _find_shared(wanted: Mapping[str, Tensor], found: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors with two names, of which safetensors keeps one."""
    places = {wanted[name].data_ptr(): name for name in found}
    return {
        name: found[places[tensor.data_ptr()]]
        for name, tensor in wanted.items()
        if name not in found and tensor.data_ptr() in places and tensor.numel()
    }


def _list_some(names: list[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:3])
    return (shown + (f" and {len(names) - 3} more" if len(names) > 3 else "")) or "none"


_OTHERS = ("optimizer", "scheduler", "training_args", "rng_state", "scaler", ".")
"""Files to ignore: hidden ones, and others in checkpoints of Hugging Face Trainer or Accelerate."""

_OTHER_FOLDERS = ("global_step", ".")
"""DeepSpeed's shards, which lie beside the full weights, to ignore as well."""

_PIECE = re.compile(r"-\d+-of-\d+\.")
_VERSION = re.compile(r"-v\d+$")  # added by Lightning if a name exists


@dataclass(frozen=True)
class CheckpointFolder:
    """The checkpoints of one run.

    Attributes:
        files: the files to probe, unordered.
        left_out: files of weights without a number (``last.ckpt``, ``best.pt``, a final
            ``model.safetensors``) beside numbered files, of which they are mostly copies.
    """

    files: tuple[Path, ...]
    left_out: tuple[Path, ...] = ()


def look_into(folder: Path) -> CheckpointFolder:
    """Find the checkpoints of one run, in a folder or below it.

    Either all lie in one folder (Lightning's ``version_0/checkpoints/epoch=3-step=40.ckpt``), or
    each in one of its own, side by side (Hugging Face's ``checkpoint-500/model.safetensors``).

    Args:
        folder: where to look. Folders below a checkpoint's own folder are ignored.

    Raises:
        InputError: if there is none, there are several runs, or weights are spread over files.
    """
    found = sorted(_walk(folder))
    if not found:
        raise InputError(
            f"No checkpoints ({', '.join(SUFFIXES)}) in {folder} or in folders below it. Check "
            "the path."
        )
    numbered = [file for file in found if _has_number(file, folder)]
    files = numbered or found
    _check_whole(files, folder)
    _check_one_run(files, folder)
    return CheckpointFolder(tuple(files), tuple(file for file in found if file not in files))


def _walk(root: Path) -> Iterator[Path]:
    for place, below, names in os.walk(root):
        files = [
            Path(place, name)
            for name in names
            if Path(name).suffix in SUFFIXES and not name.startswith(_OTHERS)
        ]
        below[:] = [name for name in below if not name.startswith(_OTHER_FOLDERS)]
        if files and Path(place) != root:
            below.clear()
        yield from files


def _has_number(file: Path, root: Path) -> bool:
    names = [_VERSION.sub("", file.stem)]
    if file.parent != root:
        names.append(file.parent.name)
    return any(re.search(r"\d", name) for name in names)


def _check_whole(files: Iterable[Path], folder: Path) -> None:
    piece = next((file for file in files if _PIECE.search(file.name)), None)
    if piece is not None:
        raise InputError(
            f"A checkpoint in {folder} has its weights in several files ({piece.name}). Save them "
            "again in one, such as with max_shard_size='100GB'."
        )


def _check_one_run(files: list[Path], folder: Path) -> None:
    parents = sorted({file.parent for file in files})
    one_each = len(parents) == len(files) and len({parent.parent for parent in parents}) == 1
    if len(parents) > 1 and not one_each:
        raise InputError(
            f"{folder} holds the checkpoints of several runs, some in {parents[0]} and some in "
            f"{parents[1]}. Name one of these folders, or the files."
        )


@dataclass(frozen=True)
class Aftermath:
    """The result of probing the checkpoints of a run.

    Attributes:
        checkpoints: the files, in the order of training.
        readings: one reading for each file.
        optimizer_states: the number of steps that used a saved optimizer state.
        start: ζ by column of the network as given, before any weights were loaded.
    """

    checkpoints: tuple[Path, ...]
    readings: tuple[Reading, ...]
    optimizer_states: int
    start: Mapping[str, float] = field(default_factory=dict)


def probe_checkpoints(
    checkpoints: Sequence[Path | str],
    model: nn.Module,
    optimizer: Optimizer | None = None,
    *,
    inputs: Inputs,
    num_classes: int,
    loss_fn: LossFunction | None = None,
    labels: Tensor | LabelSampler | None = None,
    given_labels: Tensor | None = None,
    train: tuple[Inputs, Tensor] | None = None,
    policy: ProbePolicy | None = None,
    seed: int = 0,
    name: str | None = None,
    save_to: SaveTo = None,
    key: str | None = None,
    progress: Callable[[Path, Reading], object] | None = None,
) -> Aftermath:
    """Probe the saved checkpoints of one run, first to last.

    The running mean of their drops is ζ, measured where checkpoints exist instead of after every
    epoch. The step is that of ``optimizer`` with its saved state where the files have one, and with
    fresh state otherwise, which is a departure from Algorithm 1.

    Args:
        checkpoints: files of one run, in the order of training (``sort_checkpoints`` sorts them by
            number).
        model: the network; it is restored afterwards.
        optimizer: as in training; plain SGD with lr 0.01 by default.
        inputs: unlabeled samples, prepared as in training.
        num_classes: the number of classes.
        loss_fn: the training objective; cross entropy by default.
        labels: random labels to use instead of uniform ones.
        given_labels: the given labels of ``inputs``.
        train: samples of the training set and their given labels; ``train_accuracy`` is measured
            on them in eval mode. Without it, region rules cannot decide.
        policy: how to probe; ``every`` is ignored.
        seed: of the random labels.
        name: the name of the run.
        save_to: a new run directory, which ``rote select`` reads; or as in ``rote.track``.
        key: the entry of the files that holds the weights.
        progress: called after every checkpoint.

    Returns:
        The readings.

    Raises:
        InputError: if there is no checkpoint, a file does not fit the model, or ``save_to`` is
            not a valid target.
        RunExistsError: if ``save_to`` is in use.
        MissingExtraError: if the package of a logger is not installed.

    Example:
        >>> import tempfile, torch
        >>> model, path = torch.nn.Linear(4, 3), tempfile.mkdtemp() + "/epoch-1.pt"
        >>> torch.save(model.state_dict(), path)
        >>> found = probe_checkpoints([path], model, inputs=torch.randn(16, 4), num_classes=3)
        >>> len(found.readings)
        1
    """
    folders = [target for target in parse_targets(save_to) if isinstance(target, Path)]
    files = tuple(Path(path) for path in checkpoints)
    if not files:
        raise InputError("No checkpoints given. Name at least one.")
    for folder in folders:
        check_free(folder)
    for file in files:  # find a file that does not fit before an hour of probing
        read_weights(file, key)
    if optimizer is None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    states = 0
    fresh = [dict(group) for group in optimizer.param_groups]
    with preserved(model, optimizer):
        with preserved(model, optimizer):
            read_weights(files[0], key).load_into(model)  # check that they fit
        model.train()
        tracker = track(
            model,
            optimizer,
            inputs=inputs,
            num_classes=num_classes,
            loss_fn=loss_fn,
            labels=labels,
            given_labels=given_labels,
            policy=replace(ProbePolicy() if policy is None else policy, every=1),
            seed=seed,
            name=name,
            save_to=save_to,
        )
        try:
            for file in files:
                states += _load(file, key, model, optimizer, fresh)
                metrics = {} if train is None else {"train_accuracy": tracker.accuracy(*train)}
                tracker.probe(**metrics)
                if progress is not None:
                    progress(file, tracker.readings[-1])
            tracker.name_checkpoints(dict(enumerate(files, start=1)))
        finally:
            tracker.close()
    return Aftermath(files, tuple(tracker.readings), states, tracker.start)


def sort_checkpoints(checkpoints: Sequence[Path | str]) -> list[Path]:
    """Return files in natural order: ``epoch-9`` before ``epoch-10``.

    Args:
        checkpoints: paths, in any order.

    Returns:
        The same paths in order.

    Example:
        >>> [str(path) for path in sort_checkpoints(["epoch=10.pt", "epoch=9.pt"])]
        ['epoch=9.pt', 'epoch=10.pt']
    """
    return sorted((Path(path) for path in checkpoints), key=_split_numbers)


def _split_numbers(path: Path) -> list[tuple[int, int, str]]:
    parts = re.split(r"(\d+)", str(path))
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]


def _load(
    file: Path,
    key: str | None,
    model: nn.Module,
    optimizer: Optimizer,
    fresh: Sequence[Mapping[str, Any]],
) -> bool:
    """Load one checkpoint, after resetting the optimizer's groups to the given ones.

    Returns:
        Whether it contains the optimizer's state.
    """
    optimizer.state.clear()
    for group, settings in zip(optimizer.param_groups, fresh, strict=True):
        group.update(settings)  # undo the settings of the previous file
    saved = read_weights(file, key)
    saved.load_into(model)
    if saved.optimizer is None:
        return False
    # torch takes the state of any class, and fails later.
    missing = set(optimizer.defaults) - set(saved.optimizer["param_groups"][0])
    problem = f"it lacks {', '.join(sorted(missing))}" if missing else None
    if problem is None:
        try:
            optimizer.load_state_dict(dict(saved.optimizer))
        except (ValueError, KeyError) as error:
            problem = str(error)
    if problem is not None:
        raise InputError(
            f"The optimizer state in {file} does not fit the given {type(optimizer).__name__}: "
            f"{problem}. Pass the optimizer that trained the model."
        )
    return True
