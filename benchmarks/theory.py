"""What the exact bounds of Theorem 2 cost, next to the eigendecomposition they are made from.

Goal: all bounds for n = 1000, 5 noise levels and 200 values of k̃ take at most 3 times as long as
one eigendecomposition. The two are timed in turns in one process and their medians divided.

    OMP_NUM_THREADS=1 python benchmarks/theory.py            # rewrites benchmarks/theory.json
    OMP_NUM_THREADS=1 python benchmarks/theory.py --large    # and n = 10,000, which takes minutes
"""

import argparse
import json
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rote.theory import Spectrum, bounds, monte_carlo_bounds, relu_gram, spectrum

RESULT = Path(__file__).with_suffix(".json")
NOISE = (0.0, 0.25, 0.5, 0.75, 1.0)
K_TILDE = np.arange(1, 201) * 50
SETTINGS: dict[str, Any] = {"eta": 1e-6, "k": 10_000, "delta": 0.05}
LARGE = 10_000
GOAL = 3.0


def draw_problem(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw inputs of MNIST's size, and labels that follow one direction of them."""
    x = np.abs(np.random.default_rng(0).standard_normal((n, 784)))
    return x, np.where(x[:, 0] > np.median(x[:, 0]), 1.0, -1.0)


def seconds(work: Callable[[], object]) -> float:
    """Time one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compute(pairs: Spectrum, y: np.ndarray) -> object:
    """Compute all bounds: 5 noise levels, 200 values of k̃."""
    return bounds(pairs, y, k_tilde=K_TILDE, noise=NOISE, **SETTINGS)


def compute_by_draws(pairs: Spectrum, y: np.ndarray) -> object:
    """Estimate the same by the paper's 10 draws."""
    rng = np.random.default_rng(0)
    return monte_carlo_bounds(pairs, y, k_tilde=K_TILDE, noise=NOISE, rng=rng, **SETTINGS)


def measure_small(n: int, rounds: int) -> dict[str, Any]:
    """Time each piece in turns and compare the medians."""
    x, y = draw_problem(n)
    gram = relu_gram(x, normalize=True)
    pairs = spectrum(gram)
    pieces: dict[str, Callable[[], object]] = {
        "gram": lambda: relu_gram(x, normalize=True),
        "eigendecomposition": lambda: np.linalg.eigh(gram),
        "bounds": lambda: compute(pairs, y),
        "ten_draws": lambda: compute_by_draws(pairs, y),
    }
    times: dict[str, list[float]] = {name: [] for name in pieces}
    for _ in range(rounds):
        for name, work in pieces.items():
            times[name].append(seconds(work))
    medians = {name: statistics.median(values) for name, values in times.items()}
    return {
        "n": n,
        "rounds": rounds,
        "seconds": {name: round(value, 5) for name, value in medians.items()},
        "bounds_over_eigendecomposition": round(
            medians["bounds"] / medians["eigendecomposition"], 3
        ),
        "goal": GOAL,
    }


def measure_large(n: int) -> dict[str, Any]:
    """Time each piece once for many samples, and note the memory."""
    x, y = draw_problem(n)
    kept: dict[str, Any] = {}

    def build() -> None:
        kept["gram"] = relu_gram(x, normalize=True)

    def decompose() -> None:
        kept["pairs"] = spectrum(kept["gram"])

    times = {
        "gram": seconds(build),
        "spectrum": seconds(decompose),
        "bounds": seconds(lambda: compute(kept["pairs"], y)),
    }
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {
        "n": n,
        "seconds": {name: round(value, 2) for name, value in times.items()},
        "peak_gib": round(peak, 2),
    }


def main() -> None:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--large", action="store_true", help=f"also n = {LARGE} (minutes)")
    options = parser.parse_args()
    earlier = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    small = measure_small(options.samples, options.rounds)
    command = " ".join(["python", "benchmarks/theory.py", *sys.argv[1:]])
    # A run without --large keeps the last large measurement, which names its own command.
    large = earlier.get("large")
    if options.large:
        large = {"command": command, **measure_large(LARGE)}
    result = {
        "command": command,
        "threads": os.environ.get("OMP_NUM_THREADS", "unset"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "numpy": np.__version__,
        "noise_levels": len(NOISE),
        "k_tilde_values": len(K_TILDE),
        **small,
        "large": large,
    }
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
