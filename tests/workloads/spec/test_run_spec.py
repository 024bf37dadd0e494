import json
import pickle
import random
import tomllib
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rote.errors import InputError
from rote.workloads.spec import Cosine, FieldError, NamedData, RunSpec, Sgd
from rote.workloads.spec.section import Options


def numbers(low: float, high: float, **options: Any) -> st.SearchStrategy[float]:
    return st.floats(low, high, allow_nan=False, **options)


def text(**options: Any) -> st.SearchStrategy[str]:
    """What a file can hold."""
    return st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), **options)


def table(tag: str, name: str, **entries: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({tag: st.just(name)}, optional=entries)


COUNT = st.integers(1, 10**6)
SEED = st.integers(0, 2**62)
SHARE = numbers(0, 1, exclude_max=True)
POSITIVE = numbers(0, 1e6, exclude_min=True)
SHARED_DATA = {"seed": SEED, "crop": st.integers(0, 8), "flip": st.booleans(), "test_size": COUNT}
PLAIN = st.booleans() | st.integers(-100, 100) | numbers(-1e9, 1e9) | text(max_size=5)

DATA = st.one_of(
    table("name", "digits", **SHARED_DATA),
    table("name", "mnist", source=st.sampled_from(["auto", "local", "hub"]), **SHARED_DATA),
    st.fixed_dictionaries(
        {"name": st.just("npz"), "path": text()},
        optional={"inputs": st.just("features"), **SHARED_DATA},
    ),
    st.fixed_dictionaries(
        {"name": st.just("folder"), "path": text()}, optional={"image_size": st.just(32)}
    ),
)
NOISE = st.one_of(
    table("model", "none"),
    st.fixed_dictionaries({"model": st.sampled_from(["pair", "trid"]), "rate": SHARE}),
    st.fixed_dictionaries(
        {"model": st.just("asymmetric"), "rate": SHARE},
        optional={
            "class_map": st.just("mnist") | st.dictionaries(st.sampled_from("0123"), COUNT),
            "sampling": st.sampled_from(["independent", "per-class", "overall"]),
        },
    ),
    st.fixed_dictionaries(
        {"model": st.just("instance"), "rate": SHARE}, optional={"input_scale": POSITIVE}
    ),
)
ARCHITECTURE = table(
    "name",
    "mlp",
    scale=POSITIVE,
    options=st.dictionaries(text(max_size=5), PLAIN | st.lists(PLAIN, max_size=3), max_size=4),
)
OBJECTIVE = st.one_of(
    table("name", "cross-entropy"),
    table("name", "nce-rce", alpha=POSITIVE, beta=POSITIVE),
    table("name", "mixup", alpha=POSITIVE),
    table("name", "cdr", noise_rate=SHARE, schedule=st.just("constant"), l1=POSITIVE),
)
OPTIMIZER = st.one_of(
    table("name", "sgd", lr=POSITIVE, momentum=SHARE, weight_decay=POSITIVE),
    table("name", "adamw", lr=POSITIVE, beta1=SHARE, beta2=SHARE, eps=POSITIVE),
)
SCHEDULE = st.one_of(
    table("name", "none"),
    table("name", "cosine", t_max=COUNT, min_lr=POSITIVE),
    table("name", "exponential", gamma=st.just(0.5)),
)
CHECKPOINTS = st.one_of(
    table("keep", "last", resume_every=COUNT),
    table("keep", "best", k=COUNT, metric=text(), mode=st.sampled_from(["min", "max"])),
)
TABLES = st.fixed_dictionaries(
    {},
    optional={
        "name": text(),
        "epochs": COUNT,
        "batch": st.integers(2, 10**6),
        "seed": SEED,
        "device": st.sampled_from(["auto", "cpu", "cuda", "mps"]),
        "channels_last": st.booleans(),
        "bf16": st.booleans(),
        "clip_norm": POSITIVE,
        "data": DATA,
        "noise": NOISE,
        "architecture": ARCHITECTURE,
        "objective": OBJECTIVE,
        "optimizer": OPTIMIZER,
        "schedule": SCHEDULE,
        "probe": st.fixed_dictionaries({}, optional={"holdout": st.just("train"), "seed": SEED}),
        "checkpoints": CHECKPOINTS,
    },
)


def shuffled(values: Any, order: random.Random) -> Any:
    if not isinstance(values, dict):
        return values
    names = list(values)
    order.shuffle(names)
    return {name: shuffled(values[name], order) for name in names}


@given(TABLES)
def test_a_spec_survives_toml_and_json(tables: dict[str, Any]) -> None:
    spec = RunSpec.from_dict(tables)
    assert RunSpec.from_dict(tomllib.loads(spec.to_toml())) == spec
    assert RunSpec.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec


@given(TABLES, st.randoms(use_true_random=False))
def test_the_identity_does_not_depend_on_how_a_spec_is_written(
    tables: dict[str, Any], order: random.Random
) -> None:
    spec = RunSpec.from_dict(tables)
    written_out = RunSpec.from_dict(shuffled(spec.to_dict(), order))
    assert written_out == spec
    assert hash(written_out) == hash(spec)
    assert written_out.identity == spec.identity


@given(TABLES, TABLES)
def test_different_runs_have_different_identities(one: Any, other: Any) -> None:
    def comparable(spec: RunSpec) -> RunSpec:
        return replace(spec, name=None, device="auto")

    first, second = RunSpec.from_dict(one), RunSpec.from_dict(other)
    same = comparable(first).to_dict() == comparable(second).to_dict()
    assert (first.identity == second.identity) is same


def test_name_and_device_are_no_part_of_the_identity() -> None:
    assert RunSpec(name="a", device="cpu").identity == RunSpec().identity
    assert RunSpec(seed=1).identity != RunSpec().identity


def test_the_identity_is_the_same_on_every_machine_and_in_every_version() -> None:
    spec = RunSpec.from_dict(
        {"epochs": 5, "optimizer": {"name": "adam", "lr": 1}, "noise": {"model": "pair", "rate": 1}}
    )
    assert RunSpec().identity == "c3aa9744214caf6e"
    assert spec.identity == "976022a87a67a64a"


def test_string_is_accepted_for_a_section() -> None:
    short = RunSpec.from_dict({"architecture": "mlp", "schedule": "none", "data": "digits"})
    long = RunSpec.from_dict(
        {"architecture": {"name": "mlp"}, "schedule": {"name": "none"}, "data": {"name": "digits"}}
    )
    assert short == long


def test_whole_numbers_are_taken_for_floats() -> None:
    assert RunSpec(optimizer=Sgd(lr=1)).identity == RunSpec(optimizer=Sgd(lr=1.0)).identity


def test_a_spec_cannot_change() -> None:
    with pytest.raises(FrozenInstanceError, match="epochs"):
        RunSpec().epochs = 3  # type: ignore[misc]


def test_a_changed_copy_is_checked_again() -> None:
    assert replace(RunSpec(), schedule=Cosine(t_max=3)).schedule == Cosine(t_max=3)
    with pytest.raises(FieldError, match=r"`epochs` to be an integer of at least 1, got 0\."):
        replace(RunSpec(), epochs=0)


MISTAKES = [
    ("epochs = 0", 1, r"`epochs` to be an integer of at least 1, got 0\."),
    ("epochs = 1.5", 1, r"`epochs` to be an integer of at least 1, got 1\.5\."),
    ("epochs = true", 1, r"`epochs` to be an integer of at least 1, got True\."),
    ("bf16 = 1", 1, r"`bf16` to be true or false, got 1\."),
    ("name = 3", 1, r"`name` to be text, got 3\."),
    ("\nepoch = 3", 2, r"`epoch` is not a field.*Did you mean 'epochs'\?.*name, epochs"),
    ("data = 3", 1, r"`data` to be a table, or its `name`, got 3\."),
    ("probe = 'auto'", 1, r"`probe` to be a table, got 'auto'\."),
    (
        "[optimizer]\nname = 'sgt'",
        2,
        r"`optimizer.name` to be one of sgd, adam, adamw, got 'sgt'"
        r"\. Did you mean 'sgd'\?",
    ),
    ("[optimizer]\nlr = 1", 1, r"`optimizer.name` is required: one of sgd, adam, adamw"),
    ("[optimizer]\nname = 'sgd'\n\nlr = -1", 4, r"`optimizer.lr` to be a number above 0, got -1\."),
    ("[optimizer]\nname = 'sgd'\nlr = inf", 3, r"`optimizer.lr` to be a number above 0, got inf\."),
    (
        "[optimizer]\nname = 'adam'\nmomentum = 0.9",
        3,
        r"`optimizer.momentum` is not a field "
        r"of 'adam'\..*name, lr, beta1, beta2, eps, weight_decay",
    ),
    (
        "optimizer = {name = 'sgd', nesterov = true, momentum = 0}",
        1,
        r"`optimizer.momentum` to be a number above 0 with nesterov, got 0\.0\.",
    ),
    (
        "[architecture]\nname = 'resnet19'",
        2,
        r"`architecture.name` to be one of alexnet, .*, or "
        r"package\.module:factory, got 'resnet19'\. Did you mean 'resnet18'\?",
    ),
    (
        "[architecture]\noptions.width = 1979-05-27",
        2,
        r"`architecture.options` .*1979",
    ),
    ("[architecture]\noptions = 3", 2, r"`architecture.options` to be a table of options, got 3"),
    ("[noise]\nmodel = 'pair'", 1, r"`noise.rate` is required: a number from 0 to 1"),
    ("[noise]\nmodel = 'pair'\nrate = 1.5", 3, r"`noise.rate` to be a number from 0 to 1, got 1\."),
    (
        "[noise]\nmodel = 'symmetric'\nrate = 0.5",
        2,
        r"`noise.model` .* mean 'symmetric-i",
    ),
    ("[data]\nname = 'cifar10n'", 1, r"`data.labels` is required for cifar10n: one of aggre, "),
    ("[data]\nname = 'mnist'\nlabels = 'worse'", 3, r"`data.labels` .* not to mnist"),
    ("[data]\nname = 'digits'\nsource = 'hub'", 3, r"`data.source` does not apply to digits"),
    ("[data]\nname = 'npz'", 1, r"`data.path` is required: text\."),
    (
        "[data]\nname = 'npz'\npath = 'a'\nvocabulary = 9\ninputs = 'tokens'",
        4,
        r"`data.vocabulary` .* not to tokens",
    ),
    (
        "[data]\nname = 'cifar10n'\nlabels = 'worse'\n[noise]\nmodel = 'pair'\nrate = 0.1",
        5,
        r"`noise.model` to be 'none' because `data.labels` = 'worse' .*got 'pair'",
    ),
    ("epochs = 10\n[probe]\nevery = 3", 3, r"`probe.every` to divide `epochs` \(10\), so that"),
    (
        "[probe]\nholdout = 'train'\nholdout_size = 3",
        3,
        r"`probe.holdout_size` applies to holdout 'auto'",
    ),
    ("[checkpoints]\nkeep = 'best'\nmode = 'most'", 3, r"`checkpoints.mode` to be one of max, min"),
]


@pytest.mark.parametrize(("text", "line", "complaint"), MISTAKES)
def test_a_mistake_is_named_with_file_line_and_field(
    tmp_path: Path, text: str, line: int, complaint: str
) -> None:
    file = tmp_path / "spec.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=rf"spec\.toml, line {line}: (Expected )?{complaint}"):
        RunSpec.from_toml(file)


def test_a_mistake_in_the_syntax_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "spec.toml"
    file.write_text("epochs = 3\nbatch = \n")
    with pytest.raises(InputError, match=r"spec\.toml is not valid TOML: .*at line 2"):
        RunSpec.from_toml(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"File not found: .*none\.toml"):
        RunSpec.from_toml(tmp_path / "none.toml")


def test_options_are_hashable_and_sorted() -> None:
    options = Options({"b": [1, 2], "a": True})
    assert list(options.items()) == [("a", True), ("b", (1, 2))]
    assert len(options) == 2
    assert hash(options) == hash(Options({"a": True, "b": (1, 2)}))
    with pytest.raises(TypeError, match="a name is not a string"):
        Options({1: 2})  # type: ignore[dict-item]


def test_a_spec_can_be_sent_to_another_process() -> None:
    spec = RunSpec.from_dict({"architecture": {"name": "mlp", "options": {"width": 3}}})
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_the_default_data_need_no_download() -> None:
    assert RunSpec().data == NamedData(name="digits")
