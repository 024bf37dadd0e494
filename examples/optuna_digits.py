"""Tune a network on digits with half of the labels resampled, without one clean label.

    python examples/optuna_digits.py [STORE]

Every trial is one run; Optuna searches for low ζ and high training accuracy. The last column needs
the truth, which is known here, and shows what was found; nothing is chosen by it.
"""

import sys
import tempfile
from typing import Any

import optuna

from rote.store import read_run
from rote.sweeps import SusceptibilityObjective, create_study, select_trial

TRIALS = 12


def suggest(trial: optuna.Trial) -> dict[str, Any]:
    """Return what is tried: the same fields as in a spec."""
    return {
        "epochs": 20,
        "batch": 64,
        "data": {"name": "digits"},
        "noise": {"model": "symmetric-inclusive", "rate": 0.5},
        "architecture": {
            "name": "mlp",
            "options": {
                "width": trial.suggest_int("width", 8, 512, log=True),
                "depth": trial.suggest_int("depth", 1, 3),
                "dropout": trial.suggest_float("dropout", 0.0, 0.6, step=0.1),
            },
        },
        "optimizer": {"name": "sgd", "lr": trial.suggest_float("lr", 0.003, 0.3, log=True)},
        "checkpoints": {"keep": "none"},
    }


def main() -> None:
    """Search, then choose."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    store = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="rote-optuna-")
    study = create_study(sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(SusceptibilityObjective(suggest, store), n_trials=TRIALS)
    chosen = select_trial(study)
    front = {trial.number for trial in study.best_trials}
    print("trial       ζ   train accuracy   test accuracy (unknown in practice)")
    for trial in sorted(study.trials, key=lambda trial: trial.values[0]):
        test = read_run(trial.user_attrs["run"]).readings[-1].test_accuracy
        mark = "*" if trial.number == chosen.trial.number else "+" * (trial.number in front)
        zeta, accuracy = trial.values
        print(f"{trial.number:5}  {zeta:6.3f}   {accuracy:14.1%}   {test:13.1%} {mark}")
    print(f"\n+ on the front, * its knee: {chosen.trial.params}. Runs are in {store}.")


if __name__ == "__main__":
    main()
