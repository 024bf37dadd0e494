"""Pools of runs, which studies are computed from."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from rote.errors import InputError
from rote.sweeps import SearchSpace
from rote.workloads import RunSpec

PRESETS = ("tiny", "small", "medium", "paper")
"""Their training takes minutes, a night or days on a laptop, or a cluster as in the paper."""

COMMON = "common"
"""The group of pools with many networks and recipes, which most studies share."""

_HERE = Path(__file__).parent
RECORDS = _HERE / "records"
"""The folder of committed runs and numbers."""

FRESH = "fresh"
"""The group of pools on other data, trained after every rule and constant was fixed."""

_SEEDS = (0, 1)
_DATA_TITLES = {
    "animal10n": "Animal-10N",
    "banking77": "Banking77",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "cifar10n": "CIFAR-10N",
    "clothing1m": "Clothing-1M",
    "digits": "Digits",
    "fashion_mnist": "Fashion-MNIST",
    "mnist": "MNIST",
    "svhn": "SVHN",
    "tiny_imagenet": "Tiny ImageNet",
    "wrench_sms": "SMS",
    "wrench_youtube": "YouTube comments",
    "yoruba_news": "Yorùbá news",
}
_NOISE_TITLES = {
    "symmetric-inclusive": "resampled",
    "asymmetric": "asymmetric noise",
    "pair": "pair noise",
    "instance": "instance noise",
}
_AXES = ("lists", "grid", "exclude")
_OWN = ("judged", "group", "seeds", "like", "enough", "one_sample_lr", *_AXES)


@dataclass(frozen=True, eq=False)
class Pool:
    """Runs that are compared with each other: the same data, labels and held-out samples.

    Attributes:
        name: the name of its data and noise, with the seed of its data.
        group: the name of a group of pools with the same purpose.
        is_judged: whether rules are judged on it; if not, constants may be chosen on it.
        space: the specs of the runs.
        enough: how many of the first runs must be finished before studies use the pool; by
            default all of them.
        one_sample_lr: the learning rate at which its networks learn single samples.

    Example:
        >>> pool = read_pools("tiny")[0]
        >>> len(list(pool.space)) > 1
        True
    """

    name: str
    group: str
    is_judged: bool
    space: SearchSpace
    enough: int | None = None
    one_sample_lr: float = 1e-3

    @property
    def purpose(self) -> str:
        """``chosen``, ``judged`` or ``fresh``: its role in choosing and judging rules."""
        if self.group == FRESH:
            return FRESH
        return "judged" if self.is_judged else "chosen"

    @property
    def record(self) -> Path:
        """The path of the packed pool."""
        return RECORDS / f"{self.name}.tar.xz"

    @property
    def noise(self) -> str | None:
        """The model of label noise; None for real noise from people or labeling rules."""
        made = self.space.base.get("noise", {})
        return made.get("model") if isinstance(made, Mapping) else None

    @property
    def data(self) -> str:
        """The name of its data set, also if its file has only some of the classes."""
        section = self.space.base["data"]
        if section["name"] != "npz":
            return str(section["name"])
        return Path(section["path"]).stem.removesuffix("_20c")

    @property
    def noise_level(self) -> float | None:
        """The rate of label noise; None for real noise from people or labeling rules."""
        made = self.space.base.get("noise", {})
        return made.get("rate") if isinstance(made, Mapping) else None

    @cached_property
    def noises(self) -> set[tuple[str | None, float | None]]:
        """Models and rates of label noise of its runs, without those trained on right labels."""
        noises = [spec.noise for spec in self.specs.values()]
        made = {(noise.model, getattr(noise, "rate", None)) for noise in noises}
        return {(model, rate) for model, rate in made if model != "none"} or {(None, None)}

    @property
    def given_labels(self) -> str | None:
        """The name of the labels that people gave, such as ``aggre``; None for other data."""
        name = self.space.base["data"].get("labels")
        return None if name is None else str(name)

    @property
    def is_half_random(self) -> bool:
        """Whether half of the labels are resampled uniformly, as in most figures of the paper."""
        return self.noise == "symmetric-inclusive" and self.noise_level == 0.5

    @property
    def seed(self) -> int:
        """The seed of its data and labels."""
        return int(self.space.base["seed"])

    @property
    def num_samples(self) -> int | None:
        """The number of images that its runs train on; None if all that are there."""
        size = self.space.base["data"].get("train_size")
        return None if size is None else int(size - self.space.base["probe"]["holdout_size"])

    @property
    def title(self) -> str:
        """The data and the label noise, for people: ``MNIST, 50 % resampled``."""
        data = _DATA_TITLES.get(self.data, self.data)
        if self.given_labels is not None:
            return f"{data}, labels: {self.given_labels}"
        made = [
            f"{100 * rate:.0f} % {_NOISE_TITLES.get(model, model)}"
            for model, rate in self.noises
            if model is not None and rate is not None
        ]
        return ", ".join([data, *sorted(made)])

    @cached_property
    def specs(self) -> dict[str, RunSpec]:
        """The specs by the name of the run."""
        return {spec.name: spec for spec in self.space if spec.name is not None}


def has_pools(preset: str) -> bool:
    """Return whether a preset has pools."""
    return preset in PRESETS and _get_file(preset).is_file()


def _get_file(preset: str) -> Path:
    return _HERE / "pools" / f"{preset}.toml"


def describe_pool(name: str) -> str:
    """Return the title of a pool for people, with what follows its name in brackets.

    Args:
        name: of a pool, such as ``svhn-medium-0 (6 of 12 runs)``; other names are returned
            as they are.

    Example:
        >>> describe_pool("svhn-medium-0 (6 of 12 runs)"), describe_pool("mnist-symmetric-1")
        ('SVHN, 50 % resampled (6 of 12 runs)', 'MNIST, 50 % resampled, seed 1')
    """
    known, bracket, count = name.partition(" (")
    title = _list_titles().get(known, known)
    return f"{title}{bracket}{count}"


@cache
def _list_titles() -> dict[str, str]:
    """Return the titles by name. Pools that share one also have their size or seed."""
    titles: dict[str, str] = {}
    for preset in filter(has_pools, PRESETS):
        pools = read_pools(preset)
        for pool in pools:
            alike = [p for p in pools if p.group == pool.group and p.title == pool.title]
            sizes = {p.num_samples for p in alike} - {None}
            size = f", {pool.num_samples:,} samples" if len(sizes) > 1 else ""
            first = min(p.seed for p in alike if p.num_samples == pool.num_samples)
            seed = "" if pool.seed == first else f", seed {pool.seed}"
            titles[pool.name] = f"{pool.title}{size}{seed}"
    return titles


@cache
def read_pools(preset: str) -> tuple[Pool, ...]:
    """Return the pools of a preset, each with every seed of data.

    Args:
        preset: ``tiny``, ``small``, ``medium`` or ``paper``.

    Returns:
        The pools of that preset.

    Raises:
        InputError: if there is no such preset.

    Example:
        >>> len(read_pools("tiny")) > 1
        True
    """
    if not has_pools(preset):
        known = ", ".join(filter(has_pools, PRESETS))
        raise InputError(f"Expected `preset` to be one of {known}, got {preset!r}.")
    return tuple(_make_pools(tomllib.loads(_get_file(preset).read_text(encoding="utf-8"))))


def _make_pools(said: Mapping[str, Any]) -> Iterator[Pool]:
    every_seed = said.get("seeds", _SEEDS)
    pools = {name: _merge_fields(said, name) for name in said["pools"]}
    known = {seed for fields in pools.values() for seed in fields.get("seeds", every_seed)}
    # Seeds are the outer loop: a study that runs out of time covers more data sets.
    for seed in sorted(known):
        for name, fields in pools.items():
            if seed not in fields.get("seeds", every_seed):
                continue
            own = {key: value for key, value in fields.items() if key not in _OWN}
            base = _merge(_merge(said["base"], own), {"seed": seed, "data": {"seed": seed}})
            axes = {key: fields[key] for key in _AXES if key in fields} or {"lists": said["lists"]}
            if "vocabulary" in base["data"]:  # texts
                base["data"] = {k: v for k, v in base["data"].items() if not k.endswith("_size")}
                networks = _drop_convolutions(axes["lists"]["network"]) | said["text"]["network"]
                axes = {"lists": {**axes["lists"], "network": networks}}
            space = SearchSpace.from_dict({"base": base, **axes})
            group = fields.get("group", COMMON)
            judged, enough = fields.get("judged", False), fields.get("enough")
            lr = fields.get("one_sample_lr", Pool.one_sample_lr)
            yield Pool(f"{name}-{seed}", group, judged, space, enough, lr)


def _merge_fields(said: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Merge the settings of a pool into those of its group or of the pool it extends."""
    own = said["pools"][name]
    if "like" in own:
        return _merge(_merge_fields(said, own["like"]), own)
    return _merge(said.get("groups", {}).get(own.get("group"), {}), own)


def _merge(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(one)
    for key, value in other.items():
        before = merged.get(key)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            value = _merge(before, value)
        merged[key] = value
    return merged


def _drop_convolutions(networks: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in networks.items() if v["architecture"]["name"] != "cnn"}
