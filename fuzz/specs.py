"""Random tables as specs and sweeps: an ``InputError`` comes out, or a spec that lasts."""

import tomllib
from collections.abc import Callable
from datetime import date
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from fuzz._trials import new_folder, repeat
from rote.errors import InputError
from rote.sweeps import SearchSpace
from rote.workloads import RunSpec

_SPEC: dict[str, Any] = {
    "name": "a",
    "epochs": 4,
    "batch": 16,
    "seed": 1,
    "device": "cpu",
    "clip_norm": 1.0,
    "data": {"name": "npz", "path": "x.npz", "inputs": "tokens", "train_size": 9, "crop": 1},
    "noise": {"model": "asymmetric", "rate": 0.5, "class_map": {"1": 2}},
    "architecture": {"name": "mlp", "scale": 2, "options": {"width": 8, "sizes": [1, 2]}},
    "objective": {"name": "cdr", "noise_rate": 0.1, "schedule": "constant"},
    "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9, "nesterov": True},
    "schedule": {"name": "cosine", "t_max": 3},
    "probe": {"holdout": "auto", "holdout_size": 5, "every": 2, "mode": "eval"},
    "checkpoints": {"keep": "best", "k": 2, "metric": "susceptibility"},
    "signals": ["label_wave", "os:system"],
}
_SWEEP: dict[str, Any] = {
    "name": "{architecture.name}-{seed:3}",
    "base": {"epochs": 2, "architecture": "mlp"},
    "grid": {"seed": [0, 1], "optimizer": {"lr": [0.1, 0.2]}},
    "lists": {"size": {"small": {"batch": 8}, "large": {"batch": 64}}},
    "zip": {"two": {"clip_norm": [1, 2], "bf16": [True, False]}},
    "sample": {"count": 2, "seed": 1, "draw": {"data.seed": {"integers": [0, 9]}}},
    "exclude": {"some": {"seed": 1, "batch": [8]}},
}
_WORDS = ("", "a", "sgd", "none", "mlp", "\0", "\ud800", "\x1b[2J", "../..", "{seed:99999999}", "ζ")
_NUMBERS = (0, -1, 1, 10**9, 10**30, 10**400, -(10**5000), 0.5, 1e308, 5e-324, -0.0)
_ODD = (float("nan"), float("inf"), True, None, date(2020, 1, 1), "x" * 100_000, [1] * 100_000)


def attack(seed: int, seconds: float) -> tuple[int, list[str]]:
    """Make tables until the time is over; tell what came out that must not."""
    with new_folder() as folder:
        return repeat(partial(_trial, folder / "file.toml"), seed, seconds)


def _trial(file: Path, chance: Random) -> list[str]:
    try:
        chance.choice((_as_spec, _as_sweep, _as_text))(chance, file)
    except InputError as error:
        return [f"a message of {len(str(error))} letters"] if len(str(error)) > 2000 else []
    return []


def _as_spec(chance: Random, _file: Path) -> None:
    _check_lasts(RunSpec.from_dict(mutated(_SPEC, chance)))


def _as_sweep(chance: Random, _file: Path) -> None:
    for spec in islice(SearchSpace.from_dict(mutated(_SWEEP, chance)), 5):
        _check_lasts(spec)


def _as_text(chance: Random, file: Path) -> None:
    kind: Callable[[Path], Any] = chance.choice((RunSpec.from_toml, SearchSpace.from_toml))
    text = RunSpec.from_dict({"epochs": 2, "data": {"name": "digits"}, "noise": "none"}).to_toml()
    file.write_bytes(scrambled(text.encode(), chance))
    made = kind(file)
    if isinstance(made, RunSpec):
        _check_lasts(made)


def _check_lasts(spec: RunSpec) -> None:
    """Check that an accepted spec is the same after it was written and read."""
    text = spec.to_toml()
    text.encode()
    again = RunSpec.from_dict(tomllib.loads(text))
    if again != spec or again.identity != spec.identity:
        raise AssertionError(f"another spec was read than was written: {spec!r}")


def mutated(tables: dict[str, Any], chance: Random) -> dict[str, Any]:
    """Return a copy of nested tables with a few entries changed, added or removed."""
    made = {
        name: mutated(value, chance) if isinstance(value, dict) and chance.random() < 0.5 else value
        for name, value in tables.items()
        if chance.random() < 0.9
    }
    if chance.random() < 0.3:
        known = [*made, *_WORDS]
        made[chance.choice(known)] = _value(chance, 4)
    return made


def _value(chance: Random, depth: int) -> Any:
    kind = chance.randrange(5 if depth else 3)
    if kind == 3:
        return [_value(chance, depth - 1) for _ in range(chance.randrange(4))]
    if kind == 4:
        return {
            chance.choice(_WORDS): _value(chance, depth - 1) for _ in range(chance.randrange(4))
        }
    return chance.choice((_WORDS, _NUMBERS, _ODD)[kind])


_PIECES: tuple[bytes, ...] = (
    b"[",
    b"]",
    b"[[",
    b"{",
    b'"',
    b"'''",
    b"\n",
    b"\0",
    b"\xff",
    b"=",
    b".",
    b"#",
    b"nan",
)
_PIECES += (b"9" * 5000, b"[" * 3000, b"inf", b"true", b"-", b",", b"\\u0000", b"1979-05-27")


def scrambled(content: bytes, chance: Random) -> bytes:
    """Bytes with a few of them flipped, cut out, doubled, or something put in between."""
    changed = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(changed) + 1)
        end = min(len(changed), at + chance.randint(1, 30))
        match chance.randrange(4):
            case 0 if at < len(changed):
                changed[at] ^= 1 << chance.randrange(8)
            case 1:
                del changed[at:end]
            case 2:
                changed[at:at] = changed[at:end]
            case _:
                changed[at:at] = chance.choice(_PIECES)
    return bytes(changed)
