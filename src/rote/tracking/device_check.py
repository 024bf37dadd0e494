"""A check of a device: training with and without probes, and what a probe costs there.

No GPU was available when rote was written. ``rote doctor --device cuda`` runs this on yours.
"""

import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer
from torch.utils._python_dispatch import TorchDispatchMode

from rote.errors import InputError, RoteWarning, quote
from rote.probe import ProbePolicy
from rote.tracking.make_tracker import track
from rote.tracking.tracker import Tracker

Make = Callable[[], tuple[nn.Module, Optimizer]]

_SAMPLES, _STEPS, _ROUNDS = 128, 3, 5
_READING_OPERATIONS = {"equal", "is_nonzero", "nonzero", "_local_scalar_dense", "masked_select"}
_COPIES = {"_to_copy", "copy_"}


@dataclass(frozen=True)
class DeviceCheck:
    """The result of a device check.

    Attributes:
        device: the device.
        is_same: whether training with probes ends with the same bits as training without.
        plain_noise: the largest difference between the weights of two trainings without probes;
            above 0 the device is not deterministic, and ``is_same`` is meaningless.
        generators: the number of generators that were compared.
        are_generators_kept: whether a probe restored all of them.
        time_ratio: the time of a probe over the time of a training step.
        memory_ratio: the peak memory of a probe over that of a training step; None if the device
            does not report it.
        blocking_reads: how often one probe waits for the device; None on the host.
        repeat_noise: how far the loss of a repeated forward pass moves, relative to the loss.
    """

    device: torch.device
    is_same: bool
    plain_noise: float
    generators: int
    are_generators_kept: bool
    time_ratio: float
    memory_ratio: float | None
    blocking_reads: int | None
    repeat_noise: float

    @property
    def is_sound(self) -> bool:
        """Whether probes left no trace, as far as the device can tell."""
        return self.are_generators_kept and (self.is_same or self.plain_noise > 0)

    def rows(self) -> list[tuple[str, str, str]]:
        """Return a row for each check: its name, the finding and the expected value."""
        bits = "same" if self.is_same else "DIFFERENT"
        if not self.is_same and self.plain_noise:
            bits = f"unknown: without probes, two trainings differ by {self.plain_noise:.2g}"
        kept = "restored" if self.are_generators_kept else "CHANGED"
        memory = "not reported by this device"
        if self.memory_ratio is not None:
            memory = f"{self.memory_ratio:.2f}"
        reads = "none on the CPU"
        if self.blocking_reads is not None:
            reads = str(self.blocking_reads)
        return [
            ("bits with and without probes", bits, "same"),
            (f"random generators ({self.generators})", kept, "restored"),
            (
                "time of a probe ÷ step",
                f"{self.time_ratio:.2f}",
                "about 1.4; more for tiny networks",
            ),
            ("peak memory of a probe ÷ step", memory, "below 2"),
            ("blocking reads per probe", reads, "at most 8"),
            ("noise of a repeated pass ÷ loss", f"{self.repeat_noise:.1g}", "0"),
        ]


class _Reads(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operations that wait for a device, including those called from C++."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: Counter[str] = Counter()
        self._device = device

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401
        name = func._schema.name.removeprefix("aten::")
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        is_read = name in _READING_OPERATIONS and self._is_there(args[0])
        if name in _COPIES and not kwargs.get("non_blocking"):
            source = args[1] if name == "copy_" else args[0]
            is_read = self._is_there(source) and not self._is_there(result)
        self.found[name] += is_read
        return result

    def _is_there(self, thing: object) -> bool:
        return isinstance(thing, Tensor) and thing.device.type == self._device.type


def count_blocking_reads(action: Callable[[], object], device: torch.device) -> Counter[str]:
    """Count by name where an action waits for the tensors of a device.

    Example:
        >>> found = count_blocking_reads(lambda: torch.ones(2).sum().item(), torch.device("cpu"))
        >>> dict(found)
        {'_local_scalar_dense': 1}
    """
    reads = _Reads(device)
    with reads:
        action()
    return +reads.found


def check_device(
    name: str, make: Make | None = None, *, shape: tuple[int, ...] = (32,), num_classes: int = 10
) -> DeviceCheck:
    """Train a small network on a device with and without probes, and compare.

    Args:
        name: the device, such as ``cuda``, ``cuda:1``, ``mps`` or ``cpu``.
        make: builds the network on the device, then its optimizer; by default a small one with
            BatchNorm, dropout and Adam.
        shape: the shape of one input.
        num_classes: the number of classes.

    Returns:
        What was found.

    Raises:
        InputError: if there is no such device, or it cannot hold a tensor.

    Example:
        >>> check_device("cpu").is_same
        True
    """
    device = find_device(name)
    build = make or partial(_make_small_network, device)
    samples = torch.randn(_SAMPLES, *shape, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(_SAMPLES) % num_classes
    trial = _Trial(build, device, samples, labels, num_classes)
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore", RoteWarning)  # of the tiny network
        return trial.run()


@dataclass(frozen=True)
class _Trial:
    """Trainings on one device."""

    build: Make
    device: torch.device
    samples: Tensor
    labels: Tensor
    num_classes: int

    def run(self) -> DeviceCheck:
        first, again = self._train(probes=False), self._train(probes=False)
        probed = self._train(probes=True)
        worker = _Training(self)
        before = _list_generator_states()
        worker.tracker.probe()
        after = _list_generator_states()
        reads = None
        if self.device.type != "cpu":
            reads = count_blocking_reads(worker.tracker.probe, self.device).total()
        return DeviceCheck(
            device=self.device,
            is_same=all(map(_has_same_bits, first, probed)),
            plain_noise=max(map(_measure_distance, first, again)),
            generators=len(before),
            are_generators_kept=all(map(torch.equal, before, after)),
            time_ratio=worker.time_ratio(),
            memory_ratio=worker.memory_ratio(),
            blocking_reads=reads,
            repeat_noise=worker.repeat_noise(),
        )

    def _train(self, *, probes: bool) -> list[Tensor]:
        worker = _Training(self, tracks=probes)
        for _ in range(_STEPS):
            worker.step()
            if probes:
                worker.tracker.probe()
        state = worker.optimizer.state.values()
        held = [v for entry in state for v in entry.values() if isinstance(v, Tensor)]
        kept = [
            *worker.model.parameters(),
            *worker.model.buffers(),
            *held,
            *_list_generator_states(),
        ]
        return [tensor.detach().cpu().clone() for tensor in kept]


class _Training:
    """A network in training."""

    def __init__(self, trial: _Trial, *, tracks: bool = True) -> None:
        torch.manual_seed(0)
        self.device = trial.device
        self.model, self.optimizer = trial.build()
        self.samples, self.labels = trial.samples.to(self.device), trial.labels.to(self.device)
        if tracks:
            policy = ProbePolicy(batch=len(self.samples), plain=None)
            self.tracker: Tracker = track(
                self.model,
                self.optimizer,
                inputs=self.samples,
                num_classes=trial.num_classes,
                policy=policy,
            )

    def step(self) -> None:
        self.optimizer.zero_grad()
        torch.autograd.backward(cross_entropy(self.model(self.samples), self.labels))
        self.optimizer.step()

    def time_ratio(self) -> float:
        for action in (self.step, self.tracker.probe):  # warm up: the first calls are slow
            action()
        pairs = [(self._time(self.tracker.probe), self._time(self.step)) for _ in range(_ROUNDS)]
        return median(probe / step for probe, step in pairs)

    def memory_ratio(self) -> float | None:
        module: Any = None if self.device.type == "cpu" else torch.get_device_module(self.device)
        if not hasattr(module, "max_memory_allocated"):
            return None
        peaks = []
        for action in (self.tracker.probe, self.step):
            module.reset_peak_memory_stats(self.device)
            action()
            peaks.append(module.max_memory_allocated(self.device))
        return float(peaks[0] / peaks[1])

    def repeat_noise(self) -> float:
        self.model.eval()
        with torch.no_grad():
            found = [
                float(cross_entropy(self.model(self.samples), self.labels)) for _ in range(_ROUNDS)
            ]
        return (max(found) - min(found)) / max(abs(found[0]), 1e-12)

    def _time(self, action: Callable[[], object]) -> float:
        self._wait()
        started = time.perf_counter()
        action()
        self._wait()
        return time.perf_counter() - started

    def _wait(self) -> None:
        if self.device.type != "cpu":
            torch.get_device_module(self.device).synchronize()


def _make_small_network(device: torch.device) -> tuple[nn.Module, Optimizer]:
    model = nn.Sequential(
        nn.Linear(32, 1024),
        nn.BatchNorm1d(1024),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(1024, 1024),
        nn.Tanh(),
        nn.Linear(1024, 10),
    ).to(device)  # before the optimizer: some devices give the model other parameters
    return model, torch.optim.Adam(model.parameters(), lr=0.01)


def find_device(name: str) -> torch.device:
    """Return a device on which tensors can be made.

    Args:
        name: the device, such as ``cuda``.

    Raises:
        InputError: if there is no such device, or it cannot hold a tensor.
    """
    try:
        device = torch.device(name)
        torch.ones(2, device=device).sum().item()
    except (RuntimeError, AssertionError) as error:
        found = torch.accelerator.current_accelerator()
        here = "only cpu" if found is None else f"cpu and {found.type}"
        reason = str(error).partition("\n")[0].rstrip(".")
        raise InputError(
            f"Device {quote(name)} cannot be used: torch {torch.__version__} finds {here} on this "
            f"machine ({reason})."
        ) from error
    return device


def _list_generator_states() -> list[Tensor]:
    """Return the states of torch's generators of the host and of every accelerator."""
    found = [torch.get_rng_state()]
    device = torch.accelerator.current_accelerator()
    module: Any = None if device is None else torch.get_device_module(device)
    if hasattr(module, "get_rng_state"):
        found += [module.get_rng_state(index) for index in range(torch.accelerator.device_count())]
    return [state.clone().cpu() for state in found]


def _has_same_bits(one: Tensor, other: Tensor) -> bool:
    return torch.equal(
        one.contiguous().reshape(-1).view(torch.uint8),
        other.contiguous().reshape(-1).view(torch.uint8),
    )


def _measure_distance(one: Tensor, other: Tensor) -> float:
    return float((one.double() - other.double()).abs().max()) if one.numel() else 0.0
