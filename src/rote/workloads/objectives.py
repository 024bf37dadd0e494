"""Training objectives: cross entropy, active-passive losses, Mixup and CDR."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from rote.workloads.randomness import make_numpy_generator, make_torch_generator
from rote.workloads.spec import (
    ActivePassiveObjective,
    AnyNoise,
    CdrObjective,
    FieldError,
    MixupObjective,
    RunSpec,
)


class Objective(ABC):
    """The base of all objectives.

    Attributes:
        is_robust: whether the loss is another than cross entropy, so that the drop of the latter
            is also recorded.
    """

    is_robust = False

    @abstractmethod
    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the mean loss of unmixed samples; the probe also measures it."""

    def start_epoch(self, epoch: int) -> None:  # noqa: B027  # most have nothing to do here
        """Get ready for an epoch, counted from 1; what is drawn depends on nothing before it."""

    def training_loss(
        self, model: nn.Module, inputs: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Return the training loss, and the logits of the unmixed samples."""
        logits = model(inputs)
        return self.loss(logits, labels), logits

    def shape_gradients(self, parameters: Iterable[Tensor]) -> None:  # noqa: B027  # nor here
        """Change the gradients between the backward pass and the step."""


class CrossEntropy(Objective):
    """The mean of −log p_y."""

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the mean loss."""
        return functional.cross_entropy(logits, labels)


GAMMA = 0.5
A = math.log(1e-4)
"""−9.2103: the natural logarithm of the zeros of a one-hot label. Papers say −4, code has this."""

_SMALLEST = 1e-7
_FEW_CLASSES = 10


def suggest_weights(num_classes: int) -> tuple[float, float]:
    """Return α and β that the authors use for a number of classes.

    Example:
        >>> suggest_weights(10), suggest_weights(100)
        ((1.0, 1.0), (10.0, 0.1))
    """
    return (1.0, 1.0) if num_classes <= _FEW_CLASSES else (10.0, 0.1)


def reverse_cross_entropy(log_probabilities: Tensor, labels: Tensor) -> Tensor:
    """−Σ_k p_k log q_k with q the one-hot label clamped to [1e-4, 1], p clamped to [1e-7, 1].

    That is −A · Σ_{k≠y} p_k = 9.2103 · (1 − p_y), averaged over the samples.
    """
    probabilities = log_probabilities.exp().clamp(_SMALLEST, 1.0)
    of_label = probabilities.gather(1, labels[:, None]).squeeze(1)
    return -A * (probabilities.sum(1) - of_label).mean()


class _ActivePassive(Objective):
    """α · a(y) / Σ_k a(k) + β · RCE, where the active terms a make the difference."""

    is_robust = True

    def __init__(self, alpha: float, beta: float) -> None:
        self._alpha = alpha
        self._beta = beta

    @abstractmethod
    def _compute_active_terms(self, log_probabilities: Tensor) -> Tensor:
        """a(k) of every sample and class."""

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the mean loss."""
        log_probabilities = logits.log_softmax(1)
        terms = self._compute_active_terms(log_probabilities)
        active = (terms.gather(1, labels[:, None]).squeeze(1) / terms.sum(1)).mean()
        return self._alpha * active + self._beta * reverse_cross_entropy(log_probabilities, labels)


class NceRce(_ActivePassive):
    """α · NCE + β · RCE, with NCE = log p_y / Σ_k log p_k."""

    def _compute_active_terms(self, log_probabilities: Tensor) -> Tensor:
        return log_probabilities


class NflRce(_ActivePassive):
    """α · NFL + β · RCE.

    NFL = (1 − p_y)^γ log p_y / Σ_k (1 − p_k)^γ log p_k with γ = 0.5, where, as in the authors'
    code, no gradient flows through the factors (1 − p)^γ.
    """

    def _compute_active_terms(self, log_probabilities: Tensor) -> Tensor:
        factors = (1 - log_probabilities.detach().exp()).clamp_min(0.0).pow(GAMMA)
        return factors * log_probabilities


class Mixup(CrossEntropy):
    """λ · CE(f(x'), y) + (1 − λ) · CE(f(x'), y[perm]), x' = λx + (1 − λ)x[perm], λ ~ Beta(α, α).

    One λ and one permutation per batch, drawn from the run's seed. The probe's loss is cross
    entropy on unmixed samples.
    """

    def __init__(self, alpha: float, *, seed: int) -> None:
        self._alpha = alpha
        self._seed = seed

    def start_epoch(self, epoch: int) -> None:
        """Create new generators for the epoch."""
        self._shares = make_numpy_generator(self._seed, "mixup-share", epoch)
        self._pairs = make_torch_generator(self._seed, "mixup-pairs", epoch)

    def training_loss(
        self, model: nn.Module, inputs: Tensor, labels: Tensor
    ) -> tuple[Tensor, None]:
        """Return the loss on a batch that is mixed with itself; single samples have no logits."""
        share = float(self._shares.beta(self._alpha, self._alpha))
        partner = torch.randperm(len(inputs), generator=self._pairs).to(inputs.device)
        # Indexing an image batch would lose its channels-last layout; lerp keeps the first's.
        mixed = torch.lerp(inputs, inputs[partner], 1 - share)
        logits = model(mixed)
        own, other = self.loss(logits, labels), self.loss(logits, labels[partner])
        return share * own + (1 - share) * other, None


_RANKED_AXES = (2, 4)
"""Weights of linear layers and convolutions; biases and norms keep their gradients."""


class Cdr(CrossEntropy):
    """Rank all weights by |∂L/∂w · w|; scale the gradients of the first share r, drop the rest.

    critical: r · ∂L/∂w + λ sgn(w); non-critical: λ sgn(w). The optimizer adds its own momentum and
    weight decay, so that non-critical weights still move by these, as in the authors' code.

    Args:
        noise_rate: τ.
        schedule: ``"constant"``: r = 1 − τ. ``"gradual"``: r falls in equal steps from 1 in the
            first epoch to 1 − τ in epoch ``gradual_epochs``, and stays there.
        gradual_epochs: how long r falls.
        l1: λ.
    """

    def __init__(
        self,
        noise_rate: float,
        *,
        schedule: Literal["gradual", "constant"],
        gradual_epochs: int,
        l1: float,
    ) -> None:
        self._noise_rate = noise_rate
        self._steps = gradual_epochs if schedule == "gradual" else 1
        self._l1 = l1
        self.start_epoch(1)

    @property
    def share(self) -> float:
        """r, the share of critical weights, and the factor of their gradients."""
        return self._share

    def start_epoch(self, epoch: int) -> None:
        """Set the share for the epoch."""
        progress = 1.0 if self._steps == 1 else min(1.0, (epoch - 1) / (self._steps - 1))
        self._share = 1 - self._noise_rate * progress

    @torch.no_grad()
    def shape_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Keep the gradients of critical weights, and add the decay."""
        ranked = [p for p in parameters if p.grad is not None and p.dim() in _RANKED_AXES]
        if not ranked:
            return
        importance = [(p.grad * p).abs_() for p in ranked if p.grad is not None]
        everything = torch.cat([entries.flatten() for entries in importance])
        kept = max(1, int(self._share * len(everything)))
        threshold = everything.kthvalue(len(everything) - kept + 1).values
        for parameter, entries in zip(ranked, importance, strict=True):
            assert parameter.grad is not None
            parameter.grad.mul_((entries >= threshold) * self._share)
            if self._l1 > 0:
                parameter.grad.add_(parameter.sign(), alpha=self._l1)


def make_objective(spec: RunSpec, num_classes: int) -> Objective:
    """Make the objective of a run.

    Raises:
        FieldError: if the noise rate for CDR is unknown.
    """
    chosen = spec.objective
    if isinstance(chosen, ActivePassiveObjective):
        alpha, beta = suggest_weights(num_classes)
        build = NceRce if chosen.name == "nce-rce" else NflRce
        return build(
            alpha=alpha if chosen.alpha is None else chosen.alpha,
            beta=beta if chosen.beta is None else chosen.beta,
        )
    if isinstance(chosen, MixupObjective):
        return Mixup(chosen.alpha, seed=spec.seed)
    if isinstance(chosen, CdrObjective):
        return Cdr(
            _find_noise_rate(spec, chosen),
            schedule=chosen.schedule,
            gradual_epochs=chosen.gradual_epochs,
            l1=chosen.l1,
        )
    return CrossEntropy()


def _find_noise_rate(spec: RunSpec, chosen: CdrObjective) -> float:
    if chosen.noise_rate is not None:
        return chosen.noise_rate
    if isinstance(spec.noise, AnyNoise) and spec.noise.rate < 1:
        return spec.noise.rate
    raise FieldError(
        "objective.noise_rate",
        "is required where the noise does not tell it: a number from 0 below 1.",
    )
