"""The two-layer ReLU network itself, trained by full-batch gradient descent: Theorem 1 in life."""

from dataclasses import dataclass

import numpy as np

from rote.arguments import check_integer, check_number
from rote.errors import InputError
from rote.theory.arrays import FloatArray, Numbers, as_inputs, as_labels

# Objectives are squares of residuals that are exact to about 1e-14 of the first.
ROUNDING = 1e-26


@dataclass(frozen=True, eq=False)
class TwoLayerNetwork:
    """``f_W(x) = (1/√m) Σ_r a_r relu(w_r·x)``; only the first layer is trained.

    Attributes:
        weights: first-layer weights ``w_r`` as columns, of shape (d, m).
        signs: second-layer weights ``a_r`` of ±1, of shape (m,), fixed.

    Example:
        >>> import numpy as np
        >>> network = TwoLayerNetwork(weights=np.eye(2), signs=np.array([1.0, -1.0]))
        >>> network.outputs(np.array([[1.0, 1.0]])).tolist()
        [0.0]
    """

    weights: FloatArray
    signs: FloatArray

    @classmethod
    def draw(
        cls, features: int, width: int, *, kappa: float, rng: np.random.Generator
    ) -> "TwoLayerNetwork":
        """Draw a new network: ``w_r(0) ~ N(0, κ² I)`` and uniform ``a_r`` of ±1.

        Raises:
            InputError: if the width is not a positive whole number, or κ is not positive.
        """
        check_integer("width", width, least=1)
        check_number("kappa", kappa, above=0)
        weights = kappa * rng.standard_normal((features, width))
        return cls(weights, rng.choice([-1.0, 1.0], size=width))

    def outputs(self, x: Numbers) -> FloatArray:
        """``f_W(x_i)`` of every sample, of shape (n,).

        Raises:
            InputError: if `x` is not samples of the network's input size.
        """
        samples = as_inputs(x)
        if samples.shape[1] != len(self.weights):
            raise InputError(
                f"Expected `x` to be samples of {len(self.weights)} values, "
                f"got {samples.shape[1]}. Use the inputs the network was drawn for."
            )
        return self._respond(samples)[0]

    def gram(self, x: Numbers) -> FloatArray:
        """``H_ij = x_i·x_j (1/m) Σ_r 1{w_r·x_i >= 0, w_r·x_j >= 0}``, of shape (n, n).

        Example:
            >>> network = TwoLayerNetwork(np.array([[1.0, -1.0]]), np.ones(2))
            >>> network.gram([[1.0], [2.0]]).tolist()
            [[0.5, 1.0], [1.0, 2.0]]
        """
        samples = as_inputs(x)
        _, is_active = self._respond(samples)
        result: FloatArray = (samples @ samples.T) * (is_active @ is_active.T) / len(self.signs)
        return result

    def descend(self, x: FloatArray, u: FloatArray, eta: float) -> tuple["TwoLayerNetwork", float]:
        """Return the network after one gradient step on ``½‖f_W - u‖²``.

        ``w_r ← w_r - η (1/√m) a_r Σ_i (f_W(x_i) - u_i) 1{w_r·x_i >= 0} x_i``

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
        """Return the outputs, and which unit is active for which sample."""
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
        network: the network after k + k̃ steps.
        before: the network as it was drawn, and after k steps.

    Example:
        >>> import numpy as np
        >>> found = simulate(np.eye(3), [1, -1, 1], [1, 1, -1], width=64, eta=0.1, k=5, k_tilde=2,
        ...     kappa=0.3, rng=np.random.default_rng(0))
        >>> len(found.objectives), len(found.random_objectives)
        (6, 3)
    """

    objectives: FloatArray
    random_objectives: FloatArray
    network: TwoLayerNetwork
    before: tuple[TwoLayerNetwork, TwoLayerNetwork]

    def drifts(self, x: Numbers) -> tuple[float, float]:
        """``‖H(t) - H(0)‖_F`` after k and after k + k̃ steps; the paper: O(1/√m) in the width m."""
        start, middle = self.before
        first = start.gram(x)
        later = (np.linalg.norm(network.gram(x) - first) for network in (middle, self.network))
        after_k, after_all = map(float, later)
        return after_k, after_all

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
        x: inputs, of shape (n, d) or (n, ...); the paper's have norm 1.
        y: labels of the first k steps, of shape (n,).
        y_random: labels of the next k̃ steps, of shape (n,).
        width: the number m of hidden units.
        eta: the learning rate η.
        k: steps on `y`.
        k_tilde: steps on `y_random`.
        kappa: the size κ of the initial weights.
        rng: where the initial weights come from.

    Returns:
        The objectives at every step, and the trained network.

    Raises:
        InputError: if a shape does not fit, or a number is out of its range.

    Example:
        >>> import numpy as np
        >>> found = simulate(np.eye(3), [1, -1, 1], [1, 1, -1], width=64, eta=0.1, k=5, k_tilde=2,
        ...     kappa=0.3, rng=np.random.default_rng(0))
        >>> bool(found.objectives[-1] < found.objectives[0])
        True
    """
    samples = as_inputs(x)
    labels = as_labels(y, "y", len(samples))
    random = as_labels(y_random, "y_random", len(samples))
    check_number("eta", eta, above=0)
    check_integer("k", k, least=0)
    check_integer("k_tilde", k_tilde, least=0)
    start = TwoLayerNetwork.draw(samples.shape[1], width, kappa=kappa, rng=rng)
    middle, objectives = _descend(start, samples, labels, eta, k)
    end, random_objectives = _descend(middle, samples, random, eta, k_tilde)
    return Simulation(objectives, random_objectives, end, (start, middle))


def _descend(
    network: TwoLayerNetwork, x: FloatArray, u: FloatArray, eta: float, steps: int
) -> tuple[TwoLayerNetwork, FloatArray]:
    """Return the network after some steps, and the objective before each and after the last."""
    objectives = np.empty(steps + 1)
    for step in range(steps):
        network, objectives[step] = network.descend(x, u, eta)
    objectives[steps] = 0.5 * ((network.outputs(x) - u) ** 2).sum()
    return network, objectives
