"""Instance-dependent noise (Xia et al. 2020): what a label becomes depends on its input."""

import numpy as np
from numpy.typing import NDArray

from rote.arguments import check_number
from rote.errors import InputError
from rote.labels.noise.noisy_labels import Draw, Labels

_RATE_DEVIATION = 0.1
_ROWS_AT_ONCE = 1024


def instance(
    labels: Labels,
    *,
    rate: float,
    num_classes: int,
    generator: np.random.Generator,
    inputs: NDArray[np.generic] | None,
    input_scale: float = 1.0,
) -> Draw:
    """Draw each label from a distribution computed from its input and its class.

    With q_i from a normal of mean r and deviation 0.1 truncated to [0, 1], and one random
    projection W_y (entries from N(0, 1)) per class y, sample i keeps its label with probability
    1 − q_i and takes another class with probability q_i · softmax over the other classes of
    x_i·W_y. Truncation moves the mean of q_i toward 0.5 when r is near 0 or 1; r = 0 changes
    nothing.

    Args:
        labels: clean labels.
        rate: r, the mean flip rate before truncation.
        num_classes: how many classes.
        generator: source of the draws.
        inputs: one array per sample, of any shape, flattened.
        input_scale: multiplies the inputs. The softmax is spread out only while the length of a
            flattened, scaled input is of the order of 1; a 32×32 image in [0, 1] has a length of
            about 30, and then almost all flips of a class go to one other class.

    Raises:
        InputError: if the inputs are missing, not numbers, not finite or not as many as the
            labels, or the scale is not positive.
    """
    scale = check_number("input_scale", input_scale, above=0)
    samples = _check_inputs(inputs, len(labels))
    settings = {"input_scale": scale}
    if rate == 0:
        return Draw(labels.copy(), settings)
    flip_rates = _draw_truncated_normal(rate, len(labels), generator)
    uniform = generator.random(len(labels))
    noisy = np.empty_like(labels)
    for source in range(num_classes):
        projection = scale * generator.standard_normal((samples[0].size, num_classes))
        members = np.flatnonzero(labels == source)
        for first in range(0, len(members), _ROWS_AT_ONCE):
            rows = members[first : first + _ROWS_AT_ONCE]
            scores = _check_finite(samples, rows) @ projection
            chances = _label_chances(scores, source, flip_rates[rows])
            noisy[rows] = _pick(chances, uniform[rows])
    return Draw(noisy, settings)


def _check_inputs(inputs: NDArray[np.generic] | None, size: int) -> NDArray[np.generic]:
    if inputs is None:
        raise InputError("Model 'instance' needs `inputs`, which has one sample per label.")
    samples = inputs if isinstance(inputs, np.ndarray) else np.asarray(inputs)
    kind = samples.dtype
    if not (np.issubdtype(kind, np.integer) or np.issubdtype(kind, np.floating)):
        raise InputError(f"Expected `inputs` to be an array of real numbers, got {kind}.")
    if samples.ndim == 0 or len(samples) != size:
        raise InputError(
            f"Expected `inputs` to hold one sample per label ({size}), got shape {samples.shape}."
        )
    return samples


def _check_finite(samples: NDArray[np.generic], rows: Labels) -> NDArray[np.float64]:
    block = samples[rows].reshape(len(rows), -1).astype(np.float64)
    finite = np.isfinite(block).all(axis=1)
    if not finite.all():
        raise InputError(
            f"Expected `inputs` to be finite, got NaN or infinity in sample {rows[~finite][0]}."
        )
    return block


def _draw_truncated_normal(
    mean: float, size: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Draw again what falls outside [0, 1]; with a mean inside, at least half of the draws stay."""
    draws = generator.normal(mean, _RATE_DEVIATION, size)
    while (outside := (draws < 0) | (draws > 1)).any():
        draws[outside] = generator.normal(mean, _RATE_DEVIATION, int(outside.sum()))
    return draws


def _label_chances(
    scores: NDArray[np.float64], source: int, flip_rates: NDArray[np.float64]
) -> NDArray[np.float64]:
    scores[:, source] = -np.inf
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances: NDArray[np.float64] = (
        flip_rates[:, None] * weights / weights.sum(axis=1, keepdims=True)
    )
    chances[:, source] = 1 - flip_rates
    return chances


def _pick(chances: NDArray[np.float64], uniform: NDArray[np.float64]) -> Labels:
    cumulative = chances.cumsum(axis=1)
    # Scaled to the last sum, which rounding leaves a little off 1, so that no draw falls beyond.
    reached = cumulative <= (uniform * cumulative[:, -1])[:, None]
    labels: Labels = np.minimum(reached.sum(axis=1), chances.shape[1] - 1)
    return labels
