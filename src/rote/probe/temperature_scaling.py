"""Temperature scaling: the calibration error, and the temperature that gives or minimizes it."""

from collections.abc import Callable, Iterator
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from rote.arguments import check_choice, check_integer, check_number
from rote.errors import InputError

START = 1.5
"""The temperature from which `fit_temperature` starts, as in Guo et al. (2017)."""

LIMIT = 100.0
"""`find_temperature_for_error` searches temperatures from 1 / LIMIT to LIMIT."""

GRID = 1000
HALVINGS = 60


def measure_calibration_error(
    predictions: Tensor,
    labels: Tensor,
    bins: int = 15,
    *,
    of: Literal["logits", "probabilities"] = "logits",
) -> float:
    """Return the mean distance between confidence and accuracy, ECE.

    ``Σ_b (n_b / n) |accuracy_b - mean confidence_b|`` over bins of equal width, each with its upper
    end and without its lower; confidence is the probability of the predicted class.

    Args:
        predictions: of shape (samples, classes).
        labels: the true class of each sample.
        bins: the number of bins.
        of: whether the predictions are logits or probabilities.

    Returns:
        A number in [0, 1].

    Raises:
        InputError: if shapes, labels or probabilities do not fit.

    Example:
        >>> certain = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
        >>> measure_calibration_error(certain, torch.tensor([0, 1]), of="probabilities")
        0.5
    """
    rows, classes = _check_predictions(predictions, labels)
    check_integer("bins", bins, least=1)
    check_choice("of", of, ("logits", "probabilities"))
    if of == "logits":
        return _measure_error_at(rows, classes, 1.0, bins)
    totals = rows.sum(1)
    if bool((rows < 0).any()) or bool(((totals - 1).abs() > 1e-3).any()):
        raise InputError(
            "Expected `predictions` to be probabilities that sum to 1, got rows that sum to "
            f"{float(totals.min()):.4g} to {float(totals.max()):.4g} and a least entry of "
            f"{float(rows.min()):.4g}. Pass of='logits' for logits."
        )
    # In the caller's precision: 0.2 lies in the bin that ends at 0.2.
    return _measure_error(predictions.detach().cpu(), classes, bins)


def fit_temperature(logits: Tensor, labels: Tensor) -> float:
    """Fit the temperature T at which logits / T have the least negative log likelihood.

    The likelihood is concave in 1/T, so that there is one optimum; L-BFGS starts at T = 1.5.

    Args:
        logits: of shape (samples, classes).
        labels: the true class of each sample.

    Returns:
        T > 0.

    Raises:
        InputError: if shapes or labels do not fit, or no positive temperature is the best: every
            prediction is correct (T → 0), or logits say no more about labels than chance (T → ∞).

    Example:
        >>> logits = torch.tensor([[4.0, 0.0]] * 4)
        >>> round(fit_temperature(logits, torch.tensor([0, 0, 0, 1])), 3)  # 4 / log 3
        3.641
    """
    rows, classes = _check_predictions(logits, labels)
    _check_optimum(rows, classes)
    # In units of their spread logits need a factor near 1, whatever the network's scale.
    spread = (rows - rows.mean(1, keepdim=True)).square().mean().sqrt()
    with torch.inference_mode(False), torch.enable_grad():
        rows, classes = (rows / spread).clone(), classes.clone()
        factor = (spread.clone() / START).requires_grad_()
        optimizer = torch.optim.LBFGS(
            [factor],
            max_iter=200,
            tolerance_grad=1e-12,
            tolerance_change=1e-15,
            line_search_fn="strong_wolfe",
        )

        def evaluate() -> Tensor:
            optimizer.zero_grad()
            loss = functional.cross_entropy(rows * factor, classes)
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        optimizer.step(evaluate)  # type: ignore[no-untyped-call]
    return float(spread / factor.detach())


def find_temperature_for_error(
    logits: Tensor, labels: Tensor, target: float, *, bins: int = 15, tolerance: float = 0.005
) -> float:
    """Find the temperature T at which logits / T have a given calibration error.

    This gives two networks the same calibration, as in the paper. ECE is neither monotonic in T
    (both confidence too high and too low are errors) nor continuous (samples change bins), so a
    grid finds all crossings from 1/100 to 100, and bisection follows the one nearest to T = 1.

    Args:
        logits: of held-out samples, of shape (n, classes).
        labels: their classes, of shape (n,).
        target: the ECE wanted.
        bins: the number of bins that divide (0, 1].
        tolerance: how far from the target an ECE may be to count as reached.

    Returns:
        T; of several, the one nearest to 1 in ratio.

    Raises:
        InputError: if shapes or labels do not fit, or no temperature comes within the tolerance;
            the message says which errors can be reached.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> logits = 5 * torch.randn(500, 3, generator=generator)
        >>> labels = torch.multinomial(torch.softmax(logits / 3, 1), 1, generator=generator)[:, 0]
        >>> temperature = find_temperature_for_error(logits, labels, 0.05)
        >>> abs(measure_calibration_error(logits / temperature, labels) - 0.05) < 0.005
        True
    """
    rows, classes = _check_predictions(logits, labels)
    check_number("target", target, least=0, most=1)
    check_integer("bins", bins, least=1)

    def measure_excess(temperature: float) -> float:
        return _measure_error_at(rows, classes, temperature, bins) - target

    grid = [LIMIT ** (2 * i / GRID - 1) for i in range(GRID + 1)]
    found = [measure_excess(temperature) for temperature in grid]
    for temperature in _list_candidates(grid, found, measure_excess):
        if abs(measure_excess(temperature)) <= tolerance:
            return temperature
    raise InputError(
        f"Expected `target` to be a calibration error that a temperature gives, between "
        f"{target + min(found):.4g} and {target + max(found):.4g}, got {target:.4g}. "
        "Choose a target in between, a larger `tolerance` or more samples."
    )


def _list_candidates(
    grid: list[float], found: list[float], measure_excess: Callable[[float], float]
) -> Iterator[float]:
    """Yield the crossings, nearest to T = 1 first, then the grid point nearest to the target."""
    middle = len(grid) // 2
    for i in sorted(range(len(grid) - 1), key=lambda i: abs(i + 0.5 - middle)):
        if found[i] * found[i + 1] <= 0:
            yield _bisect(grid[i], grid[i + 1], measure_excess)
    yield grid[min(range(len(grid)), key=lambda i: abs(found[i]))]


def _bisect(low: float, high: float, measure_excess: Callable[[float], float]) -> float:
    """Find where the excess changes its sign between two temperatures, to rounding."""
    ends = {low: measure_excess(low), high: measure_excess(high)}
    is_positive = ends[high] > 0
    for _ in range(HALVINGS):
        middle = (low * high) ** 0.5
        ends[middle] = measure_excess(middle)
        if (ends[middle] > 0) == is_positive:
            high = middle
        else:
            low = middle
    return min(ends, key=lambda temperature: abs(ends[temperature]))


def _measure_error_at(logits: Tensor, classes: Tensor, temperature: float, bins: int) -> float:
    return _measure_error((logits / temperature).softmax(1), classes, bins)


def _measure_error(probabilities: Tensor, classes: Tensor, bins: int) -> float:
    confidence, predicted = probabilities.max(1)
    ends = torch.linspace(0.0, 1.0, bins + 1, dtype=probabilities.dtype)
    # Without `right`, bucketize gives the bin (lower, upper] that a value lies in.
    bucket = torch.bucketize(confidence, ends[1:-1])
    excess = confidence.double() - (predicted == classes).double()
    return float(torch.bincount(bucket, weights=excess).abs().sum() / len(classes))


def _check_optimum(logits: Tensor, classes: Tensor) -> None:
    """Refuse logits whose likelihood has its optimum at T = 0 or at no finite T."""
    given = logits.gather(1, classes[:, None])[:, 0]
    if bool((given == logits.amax(1)).all()):
        raise InputError(
            f"Expected `labels` to differ from some prediction, got all {len(classes)} correct: "
            "the best temperature would be 0. Use more samples."
        )
    if float((given - logits.mean(1)).mean()) <= 0:
        raise InputError(
            "Expected `logits` to say more about `labels` than chance, got a mean logit of the "
            "label below that of all classes: the best temperature would be infinite."
        )


def _check_predictions(predictions: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return predictions as float64 and labels as classes, on the CPU and without a graph.

    Raises:
        InputError: if shapes do not fit, values are not finite or labels are no classes.
    """
    if not (isinstance(predictions, Tensor) and isinstance(labels, Tensor)):
        got = f"{type(predictions).__name__} and {type(labels).__name__}"
        raise InputError(f"Expected predictions and `labels` to be tensors, got {got}.")
    shape = tuple(predictions.shape)
    if len(shape) != 2 or shape[0] == 0 or shape[1] < 2 or tuple(labels.shape) != shape[:1]:
        raise InputError(
            "Expected predictions of shape (n, classes) and `labels` of shape (n,), "
            f"got {shape} and {tuple(labels.shape)}."
        )
    rows = predictions.detach().cpu().double()
    if not bool(rows.isfinite().all()):
        raise InputError("Expected predictions to be finite, got values that are NaN or infinite.")
    if labels.is_floating_point() or not bool(((labels >= 0) & (labels < shape[1])).all()):
        raise InputError(
            f"Expected `labels` to be classes from 0 to {shape[1] - 1}, got {labels.dtype} from "
            f"{labels.min().item()} to {labels.max().item()}."
        )
    return rows, labels.detach().cpu().long()
