"""A small training run whose tracker writes somewhere."""

from copy import deepcopy
from typing import Any

import torch
from torch.nn.functional import cross_entropy

import rote
from tests.cases import CLASSES, build_case, images

HOLDOUT = images(20, seed=9)
LABELS = torch.arange(20) % CLASSES


class Run:
    """A small training run with a tracker."""

    def __init__(
        self, save_to: Any, policy: rote.ProbePolicy | None = None, **options: Any
    ) -> None:
        self.model, self.optimizer = build_case("mlp", "sgd_momentum")
        self.tracker = rote.track(
            self.model,
            self.optimizer,
            inputs=options.pop("inputs", HOLDOUT),
            num_classes=CLASSES,
            policy=policy or rote.ProbePolicy(batch=8),
            save_to=save_to,
            **options,
        )

    def epochs(self, first: int, last: int) -> None:
        for epoch in range(first, last + 1):
            self.optimizer.zero_grad()
            cross_entropy(self.model(images(20, seed=3)), LABELS).backward()
            self.optimizer.step()
            self.tracker.probe(train_accuracy=epoch / 100)

    def state(self) -> dict[str, Any]:
        parts = {"model": self.model, "optimizer": self.optimizer, "tracker": self.tracker}
        return deepcopy({name: part.state_dict() for name, part in parts.items()})

    def load(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.tracker.load_state_dict(state["tracker"])
