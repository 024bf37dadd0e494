"""How close a low-rank spectrum comes to the exact bounds: the table of docs/theory.md.

    python examples/nystrom_bounds.py [mnist.npz]

On the first 2,000 samples of the file, or on scikit-learn's digits. Largest relative errors over
k̃ and label noise.
"""

import sys

import numpy as np
from sklearn.datasets import load_digits

from rote.theory import binary_labels, bounds, nystrom_spectrum, relu_gram, spectrum

SETTING = {"eta": 1e-4, "k": 1000, "k_tilde": [0, 10, 100, 1000], "noise": [0, 0.5, 1]}
LANDMARKS = (100, 200, 500, 1000)


def samples() -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and classes: the first of the file, or digits."""
    if len(sys.argv) == 1:
        x, classes = load_digits(return_X_y=True)
    else:
        with np.load(sys.argv[1]) as arrays:
            x, classes = arrays["x_train"], arrays["y_train"]
    return x[:2000].reshape(len(x[:2000]), -1).astype(float), classes[:2000]


def main() -> None:
    """One row for each number of landmarks; first with one pass over the matrix, then with none."""
    x, classes = samples()
    y = binary_labels(classes).y
    exact = bounds(spectrum(relu_gram(x, normalize=True)), y, delta=0.05, **SETTING)
    print("| landmarks |" + " trace_error | μ | sqrt Σ | upper |" * 2)
    for landmarks in (n for n in LANDMARKS if n < len(x)):
        cells = []
        for passes in (1, 0):
            rng = np.random.default_rng(0)
            near = nystrom_spectrum(x, landmarks=landmarks, rng=rng, passes=passes, normalize=True)
            found = bounds(near, y, delta=0.05, **SETTING)
            pairs = ((found.mu, exact.mu), (found.variance**0.5, exact.variance**0.5),
                     (found.upper, exact.upper))  # fmt: skip
            errors = (np.abs(ours / theirs - 1).max() for ours, theirs in pairs)
            cells += [f"{near.trace_error:.3f}", *(f"{100 * error:.1f} %" for error in errors)]
        print(f"| {landmarks} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
