"""S̃: a mini-batch with random labels, fixed for the run unless it is resampled."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from rote.errors import InputError, StateError
from rote.labels import IGNORE_INDEX, LabelSampler, Uniform
from rote.probe import Inputs, SampleSource, copy_inputs, count_samples, hash_content, take
from rote.snapshot import RandomState, hold_signals, restore_after


class RandomBatch:
    """The holdout, the samples of S̃ in it, and their random labels.

    Attributes:
        holdout: a copy of the samples, or ``None`` when a callable brings new ones for every probe.
        holdout_hash: the hash of its content.
        inputs: the samples of S̃.
        labels: their random labels.

    Args:
        source: the samples, or a dataset or callable that provides them.
        num_classes: the number of classes.
        size: the maximum number of samples in S̃.
        labels: labels for all samples or for S̃, or a sampler; uniform labels by default.
        seed: the seed of the generator that draws labels (and samples, if resampled).
        resample: whether ``draw`` returns new samples and labels.

    Raises:
        InputError: if samples or labels do not fit.
    """

    def __init__(
        self,
        source: Inputs | SampleSource | Callable[[], Inputs],
        *,
        num_classes: int,
        size: int,
        labels: Tensor | LabelSampler | None,
        seed: int,
        resample: bool,
    ) -> None:
        is_given = not (callable(source) or isinstance(source, SampleSource))
        self._source = None if is_given else source
        self._resample = resample
        self._size = size
        self._num_classes = num_classes
        self._generator = torch.Generator().manual_seed(seed)
        self._drawn_as: int | Tensor | None = seed
        samples = copy_inputs(source) if is_given else self._fetch(seed)  # type: ignore[arg-type]
        is_holdout = self._source is None or not resample
        self.holdout: Inputs | None = samples if is_holdout else None
        self.holdout_hash: str | None = hash_content(samples) if is_holdout else None
        self._sampler = self._as_sampler(labels, count_samples(samples))
        self.inputs, self.labels = self._draw(samples)
        self._first = self.inputs, self._drawn_as

    def draw(self) -> None:
        """Prepare the samples and labels of the next probe: the same ones, unless resampled."""
        if self._resample:
            samples = self._fetch() if self.holdout is None else self.holdout
            self.inputs, self.labels = self._draw(samples)

    @contextmanager
    def draw_or_undo(self, *, anew: bool) -> Iterator[tuple[Inputs, Tensor]]:
        """Return the samples and labels of this probe; undo the draw if the probe fails.

        Yields:
            Samples and labels.
        """
        before = self.inputs, self.labels, self._drawn_as, self._generator.get_state()
        try:
            if anew:
                self.draw()
            yield self.inputs, self.labels
        except BaseException:
            with hold_signals():
                self.inputs, self.labels, self._drawn_as, state = before
                self._generator.set_state(state)
            raise

    def describe(self) -> dict[str, Any]:
        """Return the labels and how they were drawn, as plain values."""
        kind = type(self._sampler).__name__
        named = getattr(self._sampler, "__qualname__", kind)
        drawn = " ".join(f"{label:g}" for label in self.labels.flatten().tolist())
        return {
            "sampler": named,
            "shape": list(self.labels.shape),
            "values": None if self._resample else drawn,
        }

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next draws depend on."""
        return {
            "labels": self.labels.clone(),
            "generator": self._generator.get_state(),
            "drawn_as": self._drawn_as,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state: the same samples, labels and next draws.

        Raises:
            StateError: if it belongs to a batch of another size.
        """
        if state["labels"].shape != self.labels.shape:
            raise StateError(
                f"Expected a state with labels of shape {tuple(self.labels.shape)}, "
                f"got {tuple(state['labels'].shape)}. Use the same batch size and kind of labels."
            )
        self.inputs = self._redraw_inputs(state["drawn_as"])
        self.labels, self._drawn_as = state["labels"].clone(), state["drawn_as"]
        self._generator.set_state(state["generator"])

    def _redraw_inputs(self, drawn_as: int | Tensor | None) -> Inputs:
        """Return the samples of an earlier draw; the journal may contain later ones."""
        if isinstance(drawn_as, Tensor):
            assert self.holdout is not None
            return take(self.holdout, drawn_as)
        if not self._resample:
            return self.inputs
        inputs, first = self._first
        if drawn_as == first:
            return inputs
        if isinstance(self._source, SampleSource) and drawn_as is not None:
            with torch.inference_mode(False):
                return take(copy_inputs(self._source.draw(self._size, drawn_as)), slice(self._size))
        return self.inputs  # of a callable; the next probe draws new ones before it measures

    def _fetch(self, seed: int | None = None) -> Inputs:
        if isinstance(self._source, SampleSource):
            if seed is None:
                seed = int(torch.randint(2**31, (), generator=self._generator))
            self._drawn_as = seed
            return copy_inputs(self._source.draw(self._size, seed))
        assert callable(self._source)
        self._drawn_as = seed  # None for later batches, which cannot be drawn again
        # The caller's loader may draw from the global generators; training must not notice.
        with restore_after(RandomState()):
            return copy_inputs(self._source())

    def _as_sampler(self, labels: Tensor | LabelSampler | None, samples: int) -> LabelSampler:
        if labels is None:
            return Uniform(min(self._size, samples), self._num_classes)
        if callable(labels):
            return labels
        return Given(labels)

    def _draw(self, samples: Inputs) -> tuple[Inputs, Tensor]:
        total = count_samples(samples)
        chosen: slice | Tensor = slice(min(self._size, total))
        if self._resample and self._source is None and total > self._size:
            device = self._generator.device
            order = torch.randperm(total, generator=self._generator, device=device)
            chosen = self._drawn_as = order[: self._size]
        # Tensors made in inference mode could not be used in a backward pass.
        with torch.inference_mode(False):
            inputs = take(samples, chosen)
            labels = self._check_labels(
                self._sampler(self._generator), count_samples(inputs), total
            )
            return inputs, labels[chosen].clone() if len(labels) == total else labels.clone()

    def _check_labels(self, labels: object, batch: int, total: int) -> Tensor:
        """Return the labels as the loss will take them."""
        # Labels that belong to samples must be there for every sample that may be drawn.
        is_tied = isinstance(self._sampler, Given) or hasattr(self._sampler, "given")
        sizes = (total,) if self._resample and is_tied else (batch, total)
        return _as_labels(
            labels,
            self._num_classes,
            sizes=sizes,
            ignored=getattr(self._sampler, "ignore_index", IGNORE_INDEX),
        )


class Given:
    """Labels given by the caller, the same at every draw.

    Args:
        labels: what the caller passed; checked when drawn.
    """

    def __init__(self, labels: object) -> None:
        with torch.inference_mode(False):
            self._labels = labels.detach().clone() if isinstance(labels, Tensor) else labels

    def __call__(self, generator: torch.Generator) -> Any:  # noqa: ANN401, ARG002
        """Return the labels as state."""
        return self._labels


def _as_labels(labels: object, num_classes: int, *, sizes: tuple[int, ...], ignored: int) -> Tensor:
    if not isinstance(labels, Tensor) or labels.dim() == 0:
        raise InputError(
            "Expected `labels` to be a tensor with one label per sample, or a callable that takes "
            f"a generator and returns one, got {type(labels).__name__}."
        )
    if len(labels) not in sizes:
        counts = " or ".join(str(size) for size in dict.fromkeys(sizes))
        raise InputError(
            f"Expected `labels` to have one label per sample ({counts}), got {len(labels)}."
        )
    if labels.is_floating_point():
        if labels.dim() < 2:
            raise InputError(
                "Expected `labels` to be integers, one class per sample, or a row of zeros and "
                f"ones per sample, got {labels.dtype} of shape {tuple(labels.shape)}."
            )
        inside = (labels >= 0) & (labels <= 1)
        what = "numbers from 0 to 1, one per class"
    else:
        labels = labels.long()
        inside = ((labels >= 0) & (labels < num_classes)) | (labels == ignored)
        what = f"classes from 0 to {num_classes - 1} (or {ignored}, ignored)"
    if not bool(inside.all()):
        raise InputError(f"Expected `labels` to be {what}, got {labels[~inside][0].item()}.")
    if bool((labels == ignored).all()):
        raise InputError(f"Expected `labels` to be {what}, got only ignored ones.")
    return labels
