"""Tune a network on digits with half of the labels resampled, without one clean label.

    python examples/optuna_digits.py [STORE]

Every trial is one run; Optuna searches for the highest estimated accuracy. The last column needs
the truth, which is known here, and shows what was found; nothing is chosen by it.
"""

import sys
import tempfile
from typing import Any

import optuna

from rote.store import read_run
from rote.sweeps import AccuracyObjective, create_study, select_trial

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
    study = create_study(
        sampler=optuna.samplers.TPESampler(seed=0),
        pruner=optuna.pruners.NopPruner(),  # to show every trial; by default, hopeless ones stop
    )
    study.optimize(AccuracyObjective(suggest, store), n_trials=TRIALS)
    chosen = select_trial(study)
    print("trial   estimated accuracy   test accuracy (unknown in practice)")
    finished = study.get_trials(states=[optuna.trial.TrialState.COMPLETE])
    for trial in sorted(finished, key=lambda trial: -(trial.value or 0.0)):
        steps = {reading.step: reading for reading in read_run(trial.user_attrs["run"]).readings}
        test = steps[trial.user_attrs["step"]].test_accuracy
        mark = "*" if trial.number == chosen.trial.number else ""
        print(f"{trial.number:5}   {trial.value:18.1%}   {test:13.1%} {mark}")
    print(f"\n* selected by the votes of all trials: {chosen.trial.params}. Runs are in {store}.")
    print(chosen.selection)


if __name__ == "__main__":
    main()
