"""One item under the probe: is the drop right, and is training the same with and without it?"""

import math
import random
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import rote
from compat.fork import ForkError, in_fork, one_line
from compat.traces import traces

STEPS = 2
"""Of training; a probe follows each."""

WAYS = ("step", "closure", "create_graph")
"""How loops step optimizers; the first that trains is the one."""


@dataclass
class Subject:
    """A network, what it takes, and who trains it.

    Attributes:
        model: the network.
        optimizer: whatever ``rote.track`` takes for one.
        inputs: one batch, as ``rote.track`` takes it.
        num_classes: which the network tells apart.
        label_shape: one label per sample, token or pixel.
        loss_fn: of output and labels; cross entropy of the logits by default.
    """

    model: nn.Module
    optimizer: Any
    inputs: Any
    num_classes: int
    label_shape: tuple[int, ...]
    loss_fn: Callable[[Any, Tensor], Tensor] | None = None


@dataclass(frozen=True)
class Item:
    """Something of a library that may train.

    Attributes:
        kind: architecture or optimizer.
        library: whose it is.
        name: its name there.
        build: makes a small one.
    """

    kind: str
    library: str
    name: str
    build: Callable[[], Subject]


@dataclass(frozen=True)
class Outcome:
    """How an item fared.

    Attributes:
        verdict: same, refused, unbuilt, CHANGED or TRACEBACK.
        why: a sentence, for all but ``same``.
        trace: the traceback, if there was one.
        warned: the kinds of warnings that rote gave.
    """

    verdict: str
    why: str = ""
    trace: str = ""
    warned: tuple[str, ...] = ()


def check(item: Item) -> Outcome:
    """Build an item, train it twice, and compare.

    Every training is a fork of the process that built it: all start from the same memory, and the
    oracle, which steps for real, needs no code that copies. That process must not have called
    ``backward``: torch's threads do not survive a fork.
    """
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)  # the one that strangers draw from
    try:
        subject = item.build()
    except Exception as error:  # a stranger's code may raise anything
        return Outcome("unbuilt", one_line(error))
    subject.model.train()
    stepped = [_shared(parameter) for parameter in subject.model.parameters()]
    refusals = []
    for way in WAYS:
        try:
            plain = in_fork(partial(_train_and_step, subject, way, stepped))
            after = in_fork(partial(_loss_of_stepped, subject, way, stepped))
        except ForkError as error:
            refusals.append(f"{way}: {error}")
        else:
            return _judge(subject, way, plain, after)
    return Outcome("unbuilt", f"does not train: {refusals[0]}")


def _judge(subject: Subject, way: str, plain: dict[str, Any], after: float) -> Outcome:
    try:
        probed = in_fork(lambda: _train_with_probes(subject, way))
    except ForkError as error:
        return Outcome("TRACEBACK", str(error), error.trace)
    if "refused" in probed:
        return Outcome("refused", probed["refused"])
    warned = tuple(probed["warned"])
    if "trace" in probed:
        return Outcome("TRACEBACK", probed["why"], probed["trace"], warned)
    why = _difference(plain["traces"], probed["traces"])
    if not why and not _same(probed["before"], plain["before"]):
        why = f"the loss is {probed['before']!r}, that of the oracle {plain['before']!r}"
    if not why and not _same(probed["drop"], plain["before"] - after):
        why = f"the drop is {probed['drop']!r}, that of the oracle {plain['before'] - after!r}"
    if not why:
        return Outcome("same", warned=warned)
    again = in_fork(lambda: {"traces": _train(subject, way)})
    itself = _difference(plain["traces"], again["traces"])
    if itself:
        return Outcome("unbuilt", f"trains differently twice without rote: {itself}")
    return Outcome("CHANGED", why, warned=warned)


def _train_and_step(subject: Subject, way: str, stepped: list[Tensor]) -> dict[str, Any]:
    """Run the training, and then the step that a probe only tries, taken for good."""
    found = _train(subject, way)
    with torch.compiler.set_stance("force_eager"):  # a probe compiles nothing
        before = _step(subject, _random_labels(subject), way)
    for place, parameter in zip(stepped, subject.model.parameters(), strict=True):
        place.copy_(parameter.detach())
    return {"traces": found, "before": before}


def _shared(parameter: Tensor) -> Tensor:
    """Memory in which one fork leaves a parameter for another."""
    memory: Tensor = torch.zeros_like(parameter).detach().share_memory_()  # type: ignore[no-untyped-call]
    return memory


def _loss_of_stepped(subject: Subject, way: str, stepped: list[Tensor]) -> float:
    """Return the loss with the stepped parameters, all else being as the training left it."""
    _train(subject, way)
    with torch.no_grad():
        for place, parameter in zip(stepped, subject.model.parameters(), strict=True):
            parameter.copy_(place)
        return _loss(subject, _random_labels(subject)).item()


def _train_with_probes(subject: Subject, way: str) -> dict[str, Any]:
    how = (lambda loss: loss.backward(create_graph=True)) if way == "create_graph" else None
    warned: list[str] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tracker = rote.track(
                subject.model,
                subject.optimizer,
                inputs=subject.inputs,
                num_classes=subject.num_classes,
                labels=_random_labels(subject),
                loss_fn=subject.loss_fn,
                backward=how,
                policy=rote.ProbePolicy(closure=way == "closure", batch=subject.label_shape[0]),
            )
            found = _train(subject, way, tracker.probe)
        warned = sorted({c.category.__name__ for c in caught if c.category in _kinds()})
    except rote.RoteError as error:
        return {"refused": " ".join(str(error).split())}
    except Exception as error:  # a raw traceback is what is looked for
        return {"why": one_line(error), "trace": traceback.format_exc(), "warned": warned}
    last = tracker.readings[-1]
    return {"traces": found, "before": last.loss_before, "drop": last.drop, "warned": warned}


def _kinds() -> set[type[Warning]]:
    return set(rote.RoteWarning.__subclasses__())


def _train(
    subject: Subject, way: str, after_step: Callable[[], object] = lambda: None
) -> dict[str, str]:
    for number in range(STEPS):
        _step(subject, _random_labels(subject, number + 1), way)
        after_step()
    return traces(model=subject.model, optimizer=subject.optimizer)


def _step(subject: Subject, labels: Tensor, way: str) -> float:
    def closure() -> Tensor:
        subject.model.zero_grad()
        with torch.enable_grad():
            loss = _loss(subject, labels)
            loss.backward(create_graph=way == "create_graph")  # type: ignore[no-untyped-call]
        return loss.detach()

    loss = closure().item()
    several = subject.optimizer if isinstance(subject.optimizer, list) else [subject.optimizer]
    for optimizer in several:
        optimizer.step(*([closure] if way == "closure" else []))
    return loss


def _loss(subject: Subject, labels: Tensor) -> Tensor:
    inputs, rows = subject.inputs, None
    if isinstance(inputs, rote.Samples):
        inputs, rows = inputs.inputs, inputs.rows
    if isinstance(inputs, dict):
        output = subject.model(**inputs)
    else:
        output = subject.model(*inputs) if isinstance(inputs, tuple) else subject.model(inputs)
    if rows is not None:
        output = output[rows]
    if subject.loss_fn is not None:
        return subject.loss_fn(output, labels)
    return functional.cross_entropy(getattr(output, "logits", output), labels)


def _random_labels(subject: Subject, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(subject.num_classes, subject.label_shape, generator=generator)


def _difference(one: dict[str, str], other: dict[str, str]) -> str:
    names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    if not names:
        return ""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"after training, {', '.join(names[:3])}{more} differ"


def _same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))
