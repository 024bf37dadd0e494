"""Random labels for the probe batch S̃, each kind from an explicit generator.

A sampler is any callable that takes a ``torch.Generator`` and returns one label per sample.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from rote.arguments import check_integer, check_number
from rote.errors import InputError

IGNORE_INDEX = -100
"""The label that cross entropy leaves out of the mean (torch's and Hugging Face's default)."""

LabelSampler: TypeAlias = Callable[[torch.Generator], Tensor]
"""What draws the random labels of a probe from a generator."""


@dataclass(frozen=True)
class Uniform:
    """Uniform over all classes, the paper's choice.

    Args:
        size: the number of labels.
        num_classes: the number of classes.

    Example:
        >>> Uniform(4, num_classes=10)(torch.Generator().manual_seed(0))
        tensor([4, 9, 3, 0])
    """

    size: int
    num_classes: int

    def __post_init__(self) -> None:
        check_integer("size", self.size, least=1)
        check_integer("num_classes", self.num_classes, least=2)

    def __call__(self, generator: torch.Generator) -> Tensor:
        """Draw ``size`` labels."""
        return torch.randint(
            self.num_classes, (self.size,), generator=generator, device=generator.device
        )


@dataclass(frozen=True)
class Marginal:
    """Independent draws with the class frequencies of the given labels.

    Args:
        given: the given, possibly noisy labels; as many are drawn.

    Example:
        >>> import torch
        >>> labels = Marginal(torch.tensor([0, 0, 0, 2]))(torch.Generator().manual_seed(0))
        >>> labels.shape, 1 in labels
        (torch.Size([4]), False)
    """

    given: Tensor

    def __post_init__(self) -> None:
        object.__setattr__(self, "given", torch.as_tensor(self.given))
        _check_given(self.given)

    def __call__(self, generator: torch.Generator) -> Tensor:
        """Draw one label per given label."""
        counts = torch.bincount(self.given).double().to(generator.device)
        return torch.multinomial(counts, len(self.given), replacement=True, generator=generator)


@dataclass(frozen=True)
class NeverGiven:
    """Uniform over the classes other than the given one.

    Args:
        given: the given, possibly noisy labels.
        num_classes: the number of classes.

    Example:
        >>> import torch
        >>> given = torch.tensor([0, 1, 2, 2])
        >>> bool((NeverGiven(given,
        ...     num_classes=3)(torch.Generator().manual_seed(0)) != given).all())
        True
    """

    given: Tensor
    num_classes: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "given", torch.as_tensor(self.given))
        _check_given(self.given)
        check_integer("num_classes", self.num_classes, least=2)
        if int(self.given.max()) >= self.num_classes:
            raise InputError(
                f"Expected `given` to be labels from 0 to {self.num_classes - 1}, "
                f"got {int(self.given.max())}."
            )

    def __call__(self, generator: torch.Generator) -> Tensor:
        """Draw one label per given label, never the same."""
        given = self.given.to(generator.device)
        # A shift by 1 … c−1 around the circle of classes reaches every other class once.
        shift = torch.randint(
            1, self.num_classes, given.shape, generator=generator, device=generator.device
        )
        return (given + shift) % self.num_classes


@dataclass(frozen=True)
class MultiLabel:
    """Each class is on or off by itself, as in multi-label tasks.

    Args:
        size: the number of samples.
        num_classes: the number of classes.
        probability: how likely a class is on; the mean number of labels per sample divided by the
            number of classes keeps the density of the task.

    Example:
        >>> import torch
        >>> labels = MultiLabel(5, num_classes=3)(torch.Generator().manual_seed(0))
        >>> labels.shape, sorted(labels.unique().tolist())
        (torch.Size([5, 3]), [0.0, 1.0])
    """

    size: int
    num_classes: int
    probability: float = 0.5

    def __post_init__(self) -> None:
        check_integer("size", self.size, least=1)
        check_integer("num_classes", self.num_classes, least=1)
        check_number("probability", self.probability, above=0, below=1)

    def __call__(self, generator: torch.Generator) -> Tensor:
        """Draw a matrix of zeros and ones, shape (size, num_classes)."""
        shape = (self.size, self.num_classes)
        drawn = torch.rand(shape, generator=generator, device=generator.device)
        return (drawn < self.probability).float()


@dataclass(frozen=True)
class PerToken:
    """One uniform label per token, as in sequence labeling.

    Args:
        given: labels or a template of shape (size, length); where it holds ``ignore_index``
            (padding, special tokens), the random label does too.
        num_classes: the number of classes.
        ignore_index: the label that the loss leaves out.

    Example:
        >>> import torch
        >>> given = torch.tensor([[0, 1, -100], [2, -100, -100]])
        >>> labels = PerToken(given, num_classes=3)(torch.Generator().manual_seed(0))
        >>> bool(((labels == -100) == (given == -100)).all())
        True
    """

    given: Tensor
    num_classes: int
    ignore_index: int = IGNORE_INDEX

    def __post_init__(self) -> None:
        object.__setattr__(self, "given", torch.as_tensor(self.given))
        check_integer("num_classes", self.num_classes, least=2)
        if self.given.dim() < 2:
            raise InputError(
                "Expected `given` to have one label per token (size, length), "
                f"got shape {tuple(self.given.shape)}."
            )
        if bool((self.given == self.ignore_index).all()):
            raise InputError(
                f"Expected `given` to have tokens to label, got only ignore_index "
                f"({self.ignore_index})."
            )

    def __call__(self, generator: torch.Generator) -> Tensor:
        """Draw labels of the shape of ``given``."""
        given = self.given.to(generator.device)
        drawn = torch.randint(
            self.num_classes, given.shape, generator=generator, device=generator.device
        )
        return torch.where(given == self.ignore_index, self.ignore_index, drawn)


def _check_given(given: Tensor) -> None:
    if given.dim() != 1 or len(given) == 0 or given.is_floating_point():
        raise InputError(
            "Expected `given` to be a non-empty vector of integer labels, "
            f"got shape {tuple(given.shape)} of {given.dtype}."
        )
    if int(given.min()) < 0:
        raise InputError(f"Expected `given` to be labels from 0 on, got {int(given.min())}.")
