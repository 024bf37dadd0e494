"""The naive way: copy everything, step the copy, look at the loss."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer


def deep_copy(
    model: nn.Module, optimizer: Optimizer, *, keep_state: bool = True
) -> tuple[nn.Module, Optimizer]:
    """A model and an optimizer that share nothing with the originals."""
    strays = [p for group in optimizer.param_groups for p in group["params"]]
    memo: dict[int, object] = {}
    twin = copy.deepcopy(model, memo)
    groups = [
        {**group, "params": [copy.deepcopy(p, memo) for p in group["params"]]}
        for group in optimizer.param_groups
    ]
    accepted = type(optimizer).__init__.__code__.co_varnames
    defaults = {k: v for k, v in optimizer.defaults.items() if k in accepted}
    twin_optimizer = type(optimizer)(groups, **defaults)
    if keep_state:
        twin_optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert len(strays) == sum(len(group["params"]) for group in twin_optimizer.param_groups)
    return twin, twin_optimizer


def oracle_losses(
    model: nn.Module,
    optimizer: Optimizer,
    x: Tensor,
    y: Tensor,
    *,
    mode: str = "train",
    rule: str | float = "live",
    loss_fn: Callable[[Tensor, Tensor], Tensor] = cross_entropy,
) -> tuple[float, float]:
    """Losses before and after one step of a deep copy; ``rule`` is live, fresh or a plain lr."""
    twin, stepper = deep_copy(model, optimizer, keep_state=rule == "live")
    if isinstance(rule, float):
        parameters = [p for group in stepper.param_groups for p in group["params"]]
        stepper = torch.optim.SGD(parameters, lr=rule)
    if mode == "eval":
        twin.eval()
    elif not twin.training:
        twin.train()
    contents = copy.deepcopy(twin)

    def evaluate() -> Tensor:
        # Each evaluation starts from the same random numbers and the same module state.
        torch.set_rng_state(start)
        for name, module in twin.named_modules():
            pristine = contents.get_submodule(name)
            for key, buffer in pristine._buffers.items():
                module._buffers[key] = copy.deepcopy(buffer)
            plain = {k: v for k, v in vars(pristine).items() if not k.startswith("_")}
            vars(module).update(copy.deepcopy(plain))
        return loss_fn(twin(x), y)

    def closure() -> Tensor:
        stepper.zero_grad()
        loss = evaluate()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    with torch.random.fork_rng(devices=[]):
        start = torch.get_rng_state()
        before = closure().item()
        if isinstance(stepper, torch.optim.LBFGS):
            stepper.step(closure)
        else:
            stepper.step()
        with torch.no_grad():
            return before, evaluate().item()
