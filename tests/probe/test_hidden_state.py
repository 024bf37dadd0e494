"""State behind plain functions, in slots, classes and bytes: a probe leaves no trace in it."""

import itertools
import random
import sys
import types
import weakref
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import rote
from rote.errors import InterferenceError, UncopiedStateWarning
from rote.snapshot.fingerprint import find_differences, take_fingerprint
from tests.cases import CLASSES, images

X = images(12, seed=9)
Y = torch.arange(12) % CLASSES

Loss = Callable[[Tensor, Tensor], Tensor]
Case = tuple[Loss, Callable[[], object]]

count = 0
table = {"calls": 0}
module = types.ModuleType("users_module")
module.count = 0  # type: ignore[attr-defined]


def weighted(output: Tensor, labels: Tensor, weight: float) -> Tensor:
    """A loss that shows in the weights how often it was called."""
    return cross_entropy(output, labels) * (1 + 0.1 * weight)


def closed_generator() -> Case:
    g = torch.Generator().manual_seed(0)

    def loss(o: Tensor, t: Tensor) -> Tensor:
        return cross_entropy(o + 0.1 * torch.randn(o.shape, generator=g), t)

    return loss, lambda: g.get_state().tolist()


def closed_bit_generator() -> Case:
    bits = np.random.PCG64(0)
    return (lambda o, t: weighted(o, t, bits.random_raw() % 7)), lambda: bits.state


def closed_tensor_and_array() -> Case:
    tensor, counts = torch.zeros(()), np.zeros(2)

    def loss(o: Tensor, t: Tensor) -> Tensor:
        tensor.add_(1)
        counts[0] += 1
        return weighted(o, t, float(tensor) + counts[0])

    return loss, lambda: (tensor.item(), counts.tolist())


def closed_containers() -> Case:
    seen: list[Any] = [{"calls": 0}, deque([1], maxlen=2), (OrderedDict(a=1), {1})]
    counter: Counter[str] = Counter()
    grouped: defaultdict[str, list[int]] = defaultdict(list)

    def loss(o: Tensor, t: Tensor) -> Tensor:
        seen[0]["calls"] += 1
        seen[1].append(seen[0]["calls"])
        seen[2][0].move_to_end("a")
        seen[2][1].add(seen[0]["calls"])
        counter["calls"] += 1
        grouped["x"].append(1)
        return weighted(o, t, seen[0]["calls"] + counter["calls"] + len(grouped["x"]))

    return loss, lambda: repr((seen, counter, grouped))


def closed_list_of_modules() -> Case:
    norms = [nn.BatchNorm1d(CLASSES)]
    return (lambda o, t: cross_entropy(norms[0](o), t)), lambda: {
        k: v.tolist() for k, v in norms[0].state_dict().items()
    }


@dataclass
class Note:
    calls: int = 0


@dataclass(slots=True)
class SlottedNote:
    calls: int = 0


def closed_dataclasses() -> Case:
    note, slotted = Note(), SlottedNote()

    def loss(o: Tensor, t: Tensor) -> Tensor:
        note.calls += 1
        slotted.calls += 1
        return weighted(o, t, note.calls + slotted.calls)

    return loss, lambda: (note, slotted)


def closed_function() -> Case:
    calls = [0]

    def inner() -> int:
        calls[0] += 1
        return calls[0]

    return (lambda o, t: weighted(o, t, inner())), lambda: list(calls)


def closed_number() -> Case:
    calls = 0

    def loss(o: Tensor, t: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return weighted(o, t, calls)

    return loss, lambda: calls


def unbound_name() -> Case:
    def loss(o: Tensor, t: Tensor) -> Tensor:
        nonlocal late
        try:
            late += 1
        except NameError:
            late = 1
        return weighted(o, t, late)

    def state() -> object:
        try:
            return late
        except NameError:
            return "unbound"

    late: int
    if random.random() > 2:
        late = 0
    return loss, state


def default_arguments() -> Case:
    def loss(o: Tensor, t: Tensor, calls: list[int] = [0], *, more: Any = [0]) -> Tensor:  # noqa: B006
        calls[0] += 1
        more[0] += 1
        return weighted(o, t, calls[0] + more[0])

    return loss, lambda: repr((loss.__defaults__, loss.__kwdefaults__))


def function_attribute() -> Case:
    def loss(o: Tensor, t: Tensor) -> Tensor:
        loss.calls = getattr(loss, "calls", 0) + 1  # type: ignore[attr-defined]
        return weighted(o, t, loss.calls)  # type: ignore[attr-defined]

    return loss, lambda: dict(vars(loss))


class Slotted:
    __slots__ = ("__private", "calls", "missing")

    def __init__(self) -> None:
        self.calls = self.__private = 0

    def __call__(self, o: Tensor, t: Tensor) -> Tensor:
        self.calls += 1
        self.__private += 1
        self.missing = 1
        return weighted(o, t, self.calls + self.__private)

    def state(self) -> object:
        return self.calls, self.__private, hasattr(self, "missing")


def slots() -> Case:
    loss = Slotted()
    return loss, loss.state


class Classy:
    calls = 0

    @classmethod
    def loss(cls, o: Tensor, t: Tensor) -> Tensor:
        cls.calls += 1
        cls.fresh = cls.calls  # type: ignore[attr-defined]
        return weighted(o, t, cls.calls)

    @staticmethod
    def static(o: Tensor, t: Tensor) -> Tensor:
        return Classy.loss(o, t)


def class_attribute() -> Case:
    return Classy.loss, lambda: (Classy.calls, hasattr(Classy, "fresh"))


def class_attribute_from_a_static_method() -> Case:
    return Classy.static, lambda: (Classy.calls, hasattr(Classy, "fresh"))


class Box:
    def __init__(self) -> None:
        self.calls = 0
        self.space = types.SimpleNamespace(calls=0)

    def tick(self) -> int:
        self.calls += 1
        self.space.calls += 1
        return self.calls + self.space.calls

    def loss(self, o: Tensor, t: Tensor) -> Tensor:
        return weighted(o, t, self.tick())


def plain_object() -> Case:
    box = Box()
    return (lambda o, t: weighted(o, t, box.tick())), lambda: (box.calls, box.space)


def bound_method_in_a_partial() -> Case:
    box = Box()
    return partial(Box.loss, box), lambda: (box.calls, box.space)


def buffers() -> Case:
    raw, numbers = bytearray(1), array("i", [0])
    view = memoryview(raw)

    def loss(o: Tensor, t: Tensor) -> Tensor:
        view[0] += 1
        numbers[0] += 1
        numbers.append(1)
        return weighted(o, t, raw[0] + numbers[0] + len(numbers))

    return loss, lambda: (bytes(raw), numbers.tolist())


def tick_global() -> int:
    global count, fresh_global
    count += 1
    fresh_global = count  # type: ignore[name-defined]
    table["calls"] += 1
    module.count += 1  # type: ignore[attr-defined]
    return count + table["calls"] + module.count  # type: ignore[attr-defined,no-any-return]


def global_names() -> Case:
    return (lambda o, t: weighted(o, t, tick_global())), lambda: (
        count,
        dict(table),
        module.count,  # type: ignore[attr-defined]
        "fresh_global" in globals(),
    )


def _users_module(name: str) -> types.ModuleType:
    made = types.ModuleType(name)
    made.count = 0  # type: ignore[attr-defined]
    return made


def module_in_a_closure() -> Case:
    package, default = _users_module("a_package"), _users_module("a_default")
    package.inner = _users_module("a_package.inner")  # type: ignore[attr-defined]

    def loss(o: Tensor, t: Tensor, late: Any = default) -> Tensor:
        package.inner.count += 1
        late.count += 1
        return weighted(o, t, package.inner.count + late.count)

    return loss, lambda: (package.inner.count, default.count)


def import_in_a_function() -> Case:
    sys.modules["imported_late"] = made = _users_module("imported_late")

    def loss(o: Tensor, t: Tensor) -> Tensor:
        import imported_late  # type: ignore[import-not-found]

        imported_late.count += 1
        return weighted(o, t, imported_late.count)

    return loss, lambda: made.count


class Held:
    """Somebody else's, and alive."""

    def __init__(self) -> None:
        self.count = 0


_kept_alive: list[Held] = []


def weak_reference() -> Case:
    held = Held()
    reference = weakref.ref(held)

    def loss(o: Tensor, t: Tensor) -> Tensor:
        reference().count += 1  # type: ignore[union-attr]
        return weighted(o, t, reference().count)  # type: ignore[union-attr]

    _kept_alive.append(held)
    return loss, lambda: held.count


def behind_a_cache_and_a_decorator() -> Case:
    calls = [0]

    @torch.no_grad()
    def tick() -> int:
        calls[0] += 1
        return calls[0]

    @lru_cache
    def cached(_: int) -> list[int]:
        return calls

    def loss(o: Tensor, t: Tensor) -> Tensor:
        return weighted(o, t, tick() + len(cached(1)))

    return loss, lambda: list(calls)


def object_array() -> Case:
    held = np.array([[0], None], dtype=object)

    def loss(o: Tensor, t: Tensor) -> Tensor:
        held[0][0] += 1
        return weighted(o, t, held[0][0])

    return loss, lambda: repr(held)


class Shelf(dict[str, int]):
    """A container with a slot, an attribute and a class of its own."""

    __slots__ = ("__dict__", "calls")
    total = 0


def container_of_ones_own() -> Case:
    shelf = Shelf()
    Shelf.total = shelf.calls = shelf.more = 0  # type: ignore[attr-defined]

    def loss(o: Tensor, t: Tensor) -> Tensor:
        shelf.calls += 1
        shelf.more += 1  # type: ignore[attr-defined]
        Shelf.total += 1
        shelf["calls"] = shelf.calls
        return weighted(o, t, shelf.calls + shelf.more + Shelf.total)  # type: ignore[attr-defined]

    return loss, lambda: (dict(shelf), shelf.calls, vars(shelf), Shelf.total)


CASES = [
    container_of_ones_own,
    closed_generator,
    closed_bit_generator,
    closed_tensor_and_array,
    closed_containers,
    closed_list_of_modules,
    module_in_a_closure,
    import_in_a_function,
    weak_reference,
    closed_dataclasses,
    closed_function,
    closed_number,
    unbound_name,
    default_arguments,
    function_attribute,
    slots,
    class_attribute,
    class_attribute_from_a_static_method,
    plain_object,
    bound_method_in_a_partial,
    buffers,
    global_names,
    behind_a_cache_and_a_decorator,
    object_array,
]


def weights_after(loss_fn: Loss, *, probed: bool) -> list[Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracker = None
    if probed:
        policy = rote.ProbePolicy(batch=6, verify=True)
        tracker = rote.track(
            model, optimizer, inputs=X, num_classes=CLASSES, loss_fn=loss_fn, policy=policy
        )
    for _ in range(5):
        optimizer.zero_grad()
        loss_fn(model(X), Y).backward()
        optimizer.step()
        if tracker is not None:
            tracker.probe()
    return [parameter.tolist() for parameter in model.parameters()]


@pytest.fixture
def clean_names(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def clean() -> None:
        global count
        count = 0
        globals().pop("fresh_global", None)
        table["calls"] = module.count = 0  # type: ignore[attr-defined]
        Classy.calls = 0
        if "fresh" in vars(Classy):
            del Classy.fresh  # type: ignore[attr-defined]

    monkeypatch.setitem(__import__("sys").modules, "users_module", module)
    return clean


@pytest.mark.filterwarnings("ignore::rote.errors.DominatedMeanWarning")
@pytest.mark.parametrize("case", CASES)
def test_training_is_bit_identical(case: Callable[[], Case], clean_names: Any) -> None:
    found = []
    for probed in (False, True):
        clean_names()
        found.append(weights_after(case()[0], probed=probed))
    assert found[0] == found[1]


@pytest.mark.parametrize("case", CASES)
def test_making_a_tracker_changes_nothing(case: Callable[[], Case], clean_names: Any) -> None:
    clean_names()
    loss_fn, state = case()
    before = repr(state())
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rote.track(model, optimizer, inputs=X, num_classes=CLASSES, loss_fn=loss_fn)
    assert repr(state()) == before


@pytest.mark.parametrize("case", CASES)
def test_fingerprint_covers_what_the_snapshot_covers(
    case: Callable[[], Case], clean_names: Any
) -> None:
    clean_names()
    loss_fn, _ = case()
    model = nn.Flatten()
    before = take_fingerprint(model, loss_fn)
    assert find_differences(before, take_fingerprint(model, loss_fn)) == []
    loss_fn(torch.zeros(12, CLASSES), Y)
    assert find_differences(before, take_fingerprint(model, loss_fn)) != []


def helper(x: Tensor) -> Tensor:
    helper.calls += 1  # type: ignore[attr-defined]
    return x * (1 + 0.1 * helper.calls)  # type: ignore[attr-defined,no-any-return]


class Secretive(nn.Module):
    """State on the model's side, out of reach of its registries."""

    calls = 0

    def __init__(self) -> None:
        super().__init__()
        helper.calls = 0  # type: ignore[attr-defined]
        type(self).calls = 0
        self.linear = nn.Linear(64, CLASSES)
        self.raw = bytearray(1)
        self.helper = helper

    def forward(self, x: Tensor) -> Tensor:
        self.raw[0] += 1
        return self.helper(self.linear(x.flatten(1))) * self.scale()

    def scale(self) -> float:
        Secretive.calls += 1
        return 1 + 0.01 * (Secretive.calls + self.raw[0])

    def fit(self) -> object:
        return loaded_data


class Loaded:
    def __init__(self) -> None:
        self.data = torch.zeros(3)


loaded_data = Loaded()


def test_state_beside_the_model_is_restored() -> None:
    found: list[Any] = []
    for probed in (False, True):
        torch.manual_seed(0)
        model = Secretive()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        policy = rote.ProbePolicy(verify=True)
        if probed:
            tracker = rote.track(model, optimizer, inputs=X, num_classes=CLASSES, policy=policy)
        for _ in range(5):
            optimizer.zero_grad()
            cross_entropy(model(X), Y).backward()
            optimizer.step()
            if probed:
                tracker.probe()
        found.append([parameter.tolist() for parameter in model.parameters()])
        found.append([helper.calls, Secretive.calls, bytes(model.raw)])  # type: ignore[attr-defined]
    assert found[:2] == found[2:]


def test_methods_that_no_pass_calls_are_not_followed() -> None:
    reached = {id(thing) for thing in rote.snapshot.find_reachable([Secretive()])}
    assert id(helper) in reached
    assert id(loaded_data) not in reached


def test_libraries_are_not_walked() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten())
    loss = partial(cross_entropy, label_smoothing=0.1)
    assert len(list(rote.snapshot.find_reachable([model, loss]))) < 150


def uncopied(kind: str) -> Loss:
    def numbers() -> Iterator[int]:
        yield from range(10**6)

    def over(it: Any) -> Loss:
        def loss(o: Tensor, t: Tensor) -> Tensor:
            return weighted(o, t, next(it) % 7)

        return loss

    if kind == "in a list":
        held = {"all": [iter(range(10**6))]}
        return lambda o, t: weighted(o, t, next(held["all"][0]))
    iterators = {
        "list": iter(list(range(10**4))),
        "count": itertools.count(),
        "generator": numbers(),
    }
    return over(iterators[kind])


@pytest.mark.parametrize("kind", ["list", "count", "generator", "in a list"])
@pytest.mark.parametrize("verify", [False, True])
def test_unrestorable_state_that_every_probe_changes_is_refused_at_track(
    kind: str, *, verify: bool
) -> None:
    loss_fn = uncopied(kind)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    policy = rote.ProbePolicy(verify=verify)
    with pytest.raises(InterferenceError, match="'s closure (it|held)"):
        rote.track(model, optimizer, inputs=X, num_classes=CLASSES, loss_fn=loss_fn, policy=policy)


def test_an_iterator_of_the_model_and_an_open_file_are_named(tmp_path: Any) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, CLASSES))
    model.order = iter([1, 2])  # type: ignore[assignment]
    with (tmp_path / "log").open("w") as file:
        model.log = file  # type: ignore[assignment]
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with pytest.warns(UncopiedStateWarning, match=r"model.log \(TextIOWrapper\)") as caught:
            rote.track(model, optimizer, inputs=X, num_classes=CLASSES)
    assert "model.order (list_iterator)" in str(caught[0].message)
