"""What an objective is: a loss, how a batch is trained on, what becomes of the gradients."""

from abc import ABC, abstractmethod
from collections.abc import Iterable

from torch import Tensor, nn
from torch.nn import functional


class Objective(ABC):
    """Base of all objectives; by itself it only says what there is to say.

    Attributes:
        is_robust: whether the loss is another than cross entropy, so that the drop of the latter
            is recorded, too.
    """

    is_robust = False

    @abstractmethod
    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of unmixed samples; also what the probe measures."""

    def start_epoch(self, epoch: int) -> None:  # noqa: B027  # most have nothing to do here
        """Get ready for an epoch, counted from 1; what is drawn depends on nothing before it."""

    def training_loss(
        self, model: nn.Module, inputs: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """The loss to differentiate in training, and the logits of the samples as they are."""
        logits = model(inputs)
        return self.loss(logits, labels), logits

    def shape_gradients(self, parameters: Iterable[Tensor]) -> None:  # noqa: B027  # nor here
        """Change the gradients between the backward pass and the step."""


class CrossEntropy(Objective):
    """The mean of −log p_y."""

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The mean loss."""
        return functional.cross_entropy(logits, labels)
