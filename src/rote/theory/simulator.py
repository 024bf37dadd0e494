"""The two-layer ReLU network itself, trained by full-batch gradient descent: Theorem 1 in life."""

from dataclasses import dataclass

import numpy as np

from rote.errors import InputError
from rote.theory.arrays import FloatArray, Numbers, as_float64, as_inputs, as_step

# Objectives are squares of residuals that are exact to about 1e-14 of the first.
ROUNDING = 1e-26


@dataclass(frozen=True, eq=False)
class TwoLayerNetwork:
    """``f_W(x) = (1/√m) Σ_r a_r relu(w_r·x)``; only the first layer is trained.

    Attributes:
        weights: First-layer weights ``w_r`` as columns, of shape (d, m).
        signs: Second-layer weights ``a_r`` of ±1, of shape (m,), fixed.
    """

    weights: FloatArray
    signs: FloatArray

    @classmethod
    def draw(
        cls, features: int, width: int, *, kappa: float, rng: np.random.Generator
    ) -> "TwoLayerNetwork":
        """Draw ``w_r(0) ~ N(0, κ² I)`` and uniform ``a_r`` of ±1.

        Args:
            features: The size d of an input.
            width: The number m of hidden units.
            kappa: The size κ of the initial weights.
            rng: Where the draws come from.

        Raises:
            InputError: The width is not a positive whole number, or κ is not positive.
        """
        if as_step(width, "width") < 1:
            raise InputError(
                f"Expected `width` to be at least 1, got {width}. Pass a number of hidden units."
            )
        if not 0 < kappa < np.inf:
            raise InputError(
                f"Expected `kappa` to be positive, got {kappa}. The paper takes 0 < κ <= 1."
            )
        weights = kappa * rng.standard_normal((features, width))
        return cls(weights, rng.choice([-1.0, 1.0], size=width))

    def outputs(self, x: Numbers) -> FloatArray:
        """Compute ``f_W(x_i)`` of every sample, of shape (n,).

        Raises:
            InputError: `x` is not samples of the network's input size.
        """
        samples = as_inputs(x)
        if samples.shape[1] != len(self.weights):
            raise InputError(
                f"Expected `x` to be samples of {len(self.weights)} values, "
                f"got {samples.shape[1]}. Use the inputs the network was drawn for."
            )
        return self._respond(samples)[0]

    def descended(
        self, x: FloatArray, u: FloatArray, eta: float
    ) -> tuple["TwoLayerNetwork", float]:
        """Take one gradient step on ``½‖f_W - u‖²``.

        ``w_r ← w_r - η (1/√m) a_r Σ_i (f_W(x_i) - u_i) 1{w_r·x_i >= 0} x_i``

        Args:
            x: Inputs, of shape (n, d).
            u: Labels, of shape (n,).
            eta: The learning rate η.

        Returns:
            The network after the step, and the objective before it.
        """
        outputs, is_active = self._respond(x)
        residuals = outputs - u
        gradient = x.T @ (is_active * residuals[:, None])
        gradient *= self.signs * (eta / np.sqrt(len(self.signs)))
        objective = 0.5 * float(residuals @ residuals)
        return TwoLayerNetwork(self.weights - gradient, self.signs), objective

    def _respond(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute the outputs, and which unit is active for which sample."""
        hidden = x @ self.weights
        is_active = (hidden >= 0).astype(np.float64)
        hidden *= is_active
        return hidden @ self.signs / np.sqrt(len(self.signs)), is_active


@dataclass(frozen=True, eq=False)
class Simulation:
    """What one training of k + k̃ steps showed.

    Attributes:
        objectives: ``Φ(t) = ½‖f_W(t) - y‖²`` for t = 0 … k, of shape (k + 1,).
        random_objectives: ``Φ̃(k + t) = ½‖f_W(k+t) - ỹ‖²`` for t = 0 … k̃, of shape (k̃ + 1,).
        network: The network after k + k̃ steps.
    """

    objectives: FloatArray
    random_objectives: FloatArray
    network: TwoLayerNetwork

    @property
    def distances(self) -> FloatArray:
        """``‖f_W(k+t) - ỹ‖`` for t = 0 … k̃, the left side of Theorem 1."""
        result: FloatArray = np.sqrt(2.0 * self.random_objectives)
        return result

    @property
    def worst_contraction(self) -> float:
        """The largest ``Φ(t + 1) / Φ(t)`` of both phases; Corollary 1: at most ``1 - ηλ_0/2``."""
        ratios = [0.0]
        for series in (self.objectives, self.random_objectives):
            before, after = series[:-1], series[1:]
            # Below the rounding of float64 an objective only jitters.
            is_counted = before > ROUNDING * series[0]
            ratios.extend(after[is_counted] / before[is_counted])
        return float(max(ratios))


def simulate(
    x: Numbers,
    y: Numbers,
    y_random: Numbers,
    *,
    width: int,
    eta: float,
    k: int,
    k_tilde: int,
    kappa: float,
    rng: np.random.Generator,
) -> Simulation:
    """Train a two-layer network k steps on `y`, then k̃ steps on `y_random`.

    Args:
        x: Inputs, of shape (n, d) or (n, ...); the paper's have norm 1.
        y: Labels of the first k steps, of shape (n,).
        y_random: Labels of the next k̃ steps, of shape (n,).
        width: The number m of hidden units.
        eta: The learning rate η.
        k: Steps on `y`.
        k_tilde: Steps on `y_random`.
        kappa: The size κ of the initial weights.
        rng: Where the initial weights come from.

    Returns:
        The objectives at every step, and the trained network.

    Raises:
        InputError: A shape does not fit, or a number is out of its range.
    """
    samples = as_inputs(x)
    labels, random = (
        _labels(values, name, len(samples)) for values, name in ((y, "y"), (y_random, "y_random"))
    )
    if not 0 < eta < np.inf:
        raise InputError(f"Expected `eta` to be positive, got {eta}. Pass a learning rate.")
    start = TwoLayerNetwork.draw(samples.shape[1], width, kappa=kappa, rng=rng)
    middle, objectives = _descend(start, samples, labels, eta, as_step(k, "k"))
    end, random_objectives = _descend(middle, samples, random, eta, as_step(k_tilde, "k_tilde"))
    return Simulation(objectives, random_objectives, end)


def _descend(
    network: TwoLayerNetwork, x: FloatArray, u: FloatArray, eta: float, steps: int
) -> tuple[TwoLayerNetwork, FloatArray]:
    """Take `steps` gradient steps and note the objective before each and after the last."""
    objectives = np.empty(steps + 1)
    for step in range(steps):
        network, objectives[step] = network.descended(x, u, eta)
    objectives[steps] = 0.5 * ((network.outputs(x) - u) ** 2).sum()
    return network, objectives


def _labels(values: Numbers, name: str, size: int) -> FloatArray:
    """Read one label per sample."""
    labels = as_float64(values, name)
    if labels.shape != (size,):
        raise InputError(
            f"Expected `{name}` to be of shape ({size},), got {labels.shape}. "
            "Give one label to each sample."
        )
    return labels
