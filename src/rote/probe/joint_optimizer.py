"""Several optimizers that train one model together, as one: Muon never comes alone."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from torch.optim import Optimizer


class JointOptimizer(Optimizer):
    """Steps its members one after the other, in their order.

    It keeps nothing of its own: parameter groups and state are the members', at any moment.

    Args:
        members: optimizers of torch's kind.
    """

    def __init__(self, members: Sequence[Optimizer]) -> None:
        self.members = tuple(members)  # not super: that would make groups and state of its own

    def __getstate__(self) -> dict[str, Any]:
        return {"members": self.members}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.members = state["members"]

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The groups of all members."""
        return [group for member in self.members for group in member.param_groups]

    @property
    def state(self) -> dict[Any, Any]:  # type: ignore[override]
        """The state of all members, by parameter."""
        return {key: value for member in self.members for key, value in member.state.items()}

    @property
    def defaults(self) -> dict[str, Any]:  # type: ignore[override]
        """The settings of all members, each by its kind and name."""
        named = [
            (type(member).__name__, getattr(member, "defaults", {})) for member in self.members
        ]
        return {f"{kind}.{name}": v for kind, found in named for name, v in found.items()}

    def step(self, closure: Callable[[], Tensor] | None = None) -> None:  # type: ignore[override]
        """Step every member."""
        for member in self.members:
            member.step() if closure is None else member.step(closure)  # type: ignore[arg-type]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of every member."""
        for member in self.members:
            member.zero_grad(set_to_none=set_to_none)


def members_of(optimizer: Optimizer) -> tuple[Optimizer, ...]:
    """The optimizers that are stepped: the members of a joint one, or the one itself."""
    return optimizer.members if isinstance(optimizer, JointOptimizer) else (optimizer,)
