"""``rote.track``: check every argument, describe the run, and build its tracker."""

import math
import platform
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader, Dataset

from rote.arguments import check_instance, check_integer
from rote.errors import InputError, RoteWarning, RunExistsError, StateError, UncopiedStateWarning
from rote.interpretation import read_start
from rote.labels import LabelSampler
from rote.probe import (
    Backward,
    Inputs,
    LossFunction,
    Probe,
    ProbePolicy,
    SampleSource,
    broadcast_from_first,
    check_model_and_optimizer,
    count_ranks,
    count_samples,
    cross_entropy,
    fail_together,
    hash_content,
    is_bundle,
    is_dataset,
    is_first_rank,
    select_measured,
    unwrap,
    unwrap_optimizer,
)
from rote.records import COLUMNS
from rote.snapshot import Uncopied
from rote.store import (
    GIVEN_LABELS,
    NEIGHBORS_FILE,
    SaveTo,
    Target,
    compute_checksums,
    encode_labels,
    encode_votes,
    find_vote_fault,
    get_run_name,
    open_sinks,
    parse_targets,
)
from rote.tracking.random_batch import RandomBatch
from rote.tracking.signals import (
    NoisyValidationSignal,
    Signal,
    SignalContext,
    Signals,
    as_given_labels,
)
from rote.tracking.susceptibility import list_zetas
from rote.tracking.tracker import Tracker
from rote.version import __version__


def describe_run(
    probe: Probe,
    batch: RandomBatch,
    signals: Signals,
    *,
    predicts: bool,
    given_labels: np.ndarray | None,
    neighbor_votes: np.ndarray | None,
    seed: int,
    name: str | None,
    start: Mapping[str, float],
) -> dict[str, Any]:
    """Describe a run before it starts."""
    given = None if given_labels is None else encode_labels(given_labels)
    contents = {} if given is None else {GIVEN_LABELS: given.encode()}
    if neighbor_votes is not None:
        contents[NEIGHBORS_FILE] = encode_votes(neighbor_votes)
    return {
        "name": name,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "versions": {
            "rote": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
        },
        "seed": seed,
        "num_classes": probe.num_classes,
        "policy": signals.context.policy.describe(),
        "labels": batch.describe(),
        "holdout": _describe_holdout(batch, predicts=predicts),
        # Apart from the holdout, so that a run that has none yet can be resumed.
        GIVEN_LABELS: given,
        **(compute_checksums(contents) if contents else {}),
        "model": _describe_model(probe.model),
        "optimizer": _describe_optimizer(probe.optimizer),
        "start": dict(start),
        **signals.describe(),
    }


def check_same_run(found: Mapping[str, Any], wanted: Mapping[str, Any], place: str) -> None:
    """Refuse to resume a run that measured something else.

    Raises:
        StateError: if classes, random labels, samples, policy or signals differ.
    """
    new = wanted.get("columns", {}).keys() - found.get("columns", {}).keys() - COLUMNS.keys()
    if new:
        raise StateError(
            f"The run to resume ({place}) did not measure `{min(new)}`. Pass the `signals` that "
            "it was started with, or start a new run elsewhere."
        )
    for key in ("num_classes", "labels", "holdout", "policy"):
        mine, theirs = wanted[key], found.get(key)
        if key == "policy":
            mine, theirs = (select_measured(policy or {}) for policy in (mine, theirs))
        if mine != theirs:
            raise StateError(
                f"Cannot resume {place}: {_WORDS[key]} changed "
                f"({_explain_difference(key, mine, theirs)}). Pass what the run was started with, "
                "or start a new run elsewhere."
            )


_WORDS = {
    "num_classes": "`num_classes`",
    "labels": "the random labels (`labels`, `seed`)",
    "holdout": "the holdout (`inputs`)",
    "policy": "`policy`",
}


def _describe_holdout(batch: RandomBatch, *, predicts: bool) -> dict[str, Any] | None:
    if batch.holdout is None:
        return None
    size = count_samples(batch.holdout)
    shape = [size, *batch.labels.shape[1:]] if predicts else None
    return {"size": size, "hash": batch.holdout_hash, "predictions": shape}


def _describe_model(model: nn.Module) -> dict[str, Any]:
    count = sum(parameter.numel() for parameter in model.parameters())
    return {"class": _get_full_name(model), "parameters": count}


def _describe_optimizer(optimizer: Optimizer) -> dict[str, Any]:
    defaults = getattr(optimizer, "defaults", {})
    settings = {name: _simplify(value) for name, value in defaults.items()}
    return {"class": _get_full_name(optimizer), "settings": settings}


def _get_full_name(thing: object) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


def _simplify(value: object) -> object:
    if isinstance(value, tuple | list):
        return [_simplify(entry) for entry in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    return value if type(value) is float and math.isfinite(value) else repr(value)


def _explain_difference(key: str, mine: Any, theirs: Any) -> str:  # noqa: ANN401
    """Explain the difference in words, without hashes and other values for machines only."""
    if not isinstance(mine, Mapping) or not isinstance(theirs, Mapping):
        if key == "num_classes":
            return f"{mine} instead of {theirs}"
        return "a fixed one instead of none" if mine else "none instead of a fixed one"
    unlike = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
    plain = [name for name in unlike if name not in _UNREADABLE]
    if plain:
        return ", ".join(f"{name} {mine.get(name)} instead of {theirs.get(name)}" for name in plain)
    if key == "holdout":
        return f"as many samples ({mine['size']}), but others"
    return "others of the same kind and shape"


_UNREADABLE = ("hash", "values")


def track(
    model: nn.Module,
    optimizer: Optimizer | Sequence[Optimizer],
    *,
    inputs: Inputs | Dataset[Any] | DataLoader[Any] | Callable[[], Inputs],
    num_classes: int,
    take: Callable[[Any], Inputs] | None = None,
    loss_fn: LossFunction | None = None,
    backward: Backward | None = None,
    labels: Tensor | LabelSampler | None = None,
    given_labels: Tensor | None = None,
    neighbor_votes: np.ndarray | Tensor | None = None,
    signals: Sequence[str | Signal] = (),
    policy: ProbePolicy | None = None,
    seed: int = 0,
    name: str | None = None,
    save_to: SaveTo = None,
    resume: bool = False,
) -> Tracker:
    """Track how much a network memorizes while it trains.

    Call ``tracker.probe()`` after every epoch. It takes one step of the training optimizer on one
    mini-batch with random labels, records how far the loss fell, and restores everything: training
    is bit-identical with and without it. Give ``tracker.probe`` the training accuracy as
    ``train_accuracy=``, a share from 0 to 1: ``StopRule`` and most rules of ``rote.select`` need
    it, and ``tracker.accuracy`` measures it.

    With several ranks (DDP, FSDP2) every rank calls this and every rank probes; the readings are
    means over ranks, and only the first rank writes.

    Args:
        model: the network in training.
        optimizer: the optimizer that trains it; or a list of several that are stepped together.
        inputs: unlabeled samples: a tensor, a tuple of arguments, a mapping of keyword arguments,
            or a callable that returns one. The first ``policy.batch`` samples are S̃; if there are
            more, all of them are a holdout, best kept out of training, on which predictions are
            recorded. They are moved to the model's device, unless one of the tensors is there.
            ``rote.Samples`` is for graphs and time-first batches. Of a dataset or a loader
            ``policy.batch`` samples are drawn by index, without its workers, and no generator
            moves, as it would by ``next(iter(loader))``.
        num_classes: the number of classes the model tells apart: 2 also for a model with one logit.
        take: picks the inputs out of a batch of a dataset or loader; by default its first entry, or
            a mapping without its labels.
        loss_fn: the training objective, called with the model's output and labels, or, if it has
            three arguments, with model, inputs and labels; cross entropy by default.
            ``rote.LogitsAt`` is one for models that return a tuple or an object.
        backward: how the loop differentiates a loss, if not by ``loss.backward()``:
            ``fabric.backward``, or ``lambda loss: loss.backward(create_graph=True)``.
        labels: random labels to use instead of uniform ones: a tensor, or a callable that takes a
            ``torch.Generator`` (``rote.labels`` has several).
        given_labels: the given, possibly noisy labels of ``inputs``; their accuracy is recorded as
            ``validation_accuracy``.
        neighbor_votes: the result of ``rote.neighbor_votes`` for ``inputs``, one row per sample;
            kept in the run's directory, for the posterior rule of ``rote.select``.
        signals: what else to observe: names (files of ``rote/rivals``), your own
            ``package.module:Name``, or objects (``rote.Signal``). Signals that watch
            training get its batches from ``tracker.observe``.
        policy: how to probe; the paper's Algorithm 1 by default.
        seed: of the generator that draws the random labels.
        name: the name of the run; by default the directory's, or what the logger gives it.
        save_to: a new directory for the run's journal; a logger (``"mlflow:EXPERIMENT[@uri]"``,
            ``"tensorboard:LOGDIR"``, ``"wandb:PROJECT"``; without an experiment or project the
            run that is open there); a function that is called with every new reading; or a list
            of several. A logger that fails does not stop the training (``LoggerWarning``).
        resume: resume the run that is in ``save_to``, after its last reading. Load the
            tracker's ``state_dict`` as well if training resumes from an earlier point, or if
            ``policy.every`` skips steps: the journal knows only the steps that were measured.

    Returns:
        The tracker.

    Raises:
        InputError: if anything does not fit; nothing has been touched or written then.
        RunExistsError: if ``save_to`` is in use and ``resume`` is false.
        RunLockedError: if another process is writing ``save_to``.
        MissingExtraError: if the package of a logger is not installed.
        CorruptRunError: if the run to resume is damaged.
        StateError: if the run to resume has other inputs, labels or classes.
        RankError: if another rank failed.

    Example:
        >>> import torch, rote
        >>> model = torch.nn.Linear(4, 3)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> tracker = rote.track(model, optimizer, inputs=torch.randn(16, 4), num_classes=3)
        >>> reading = tracker.probe(train_accuracy=0.5)
        >>> reading.step, reading.drop == tracker.susceptibility, reading.train_accuracy
        (1, True, 0.5)
    """
    with fail_together() as facts:
        policy = ProbePolicy() if policy is None else policy
        check_instance("policy", policy, ProbePolicy)
        num_classes = check_integer("num_classes", num_classes, least=2)
        seed = check_integer("seed", seed, least=-(2**63), most=2**63 - 1)
        targets = parse_targets(save_to)
        _check_saving(targets, name, resume=resume)
        check_model_and_optimizer(model, optimizer)
        batch = RandomBatch(
            _find_source(inputs, take),
            num_classes=num_classes,
            size=policy.batch,
            labels=labels,
            seed=seed,
            resample=policy.resample,
        )
        per_sample = {"given_labels": given_labels, "neighbor_votes": neighbor_votes}
        _check_order(inputs, per_sample)
        given = (
            None if given_labels is None else _check_given(given_labels, batch, policy, num_classes)
        )
        votes = None if neighbor_votes is None else _check_votes(neighbor_votes, batch, num_classes)
        probe = Probe(
            model,
            unwrap_optimizer(optimizer),
            num_classes,
            loss_fn=cross_entropy if loss_fn is None else loss_fn,
            policy=policy,
            backward=backward,
        )
        tracker = _make_tracker(probe, batch, given, signals)
        facts |= _collect_facts(tracker, probe, given)
    _try_out(tracker, probe)
    with fail_together():
        if targets and is_first_rank():
            _open_run(tracker, probe, targets, given, votes, seed=seed, name=name, resume=resume)
    if count_ranks() > 1:
        tracker.follow(broadcast_from_first(tracker.readings))
    return tracker


def _make_tracker(
    probe: Probe, batch: RandomBatch, given: np.ndarray | None, signals: Sequence[str | Signal]
) -> Tracker:
    context = SignalContext(
        probe.model,
        probe.optimizer,
        probe.num_classes,
        probe.policy,
        batch.holdout,
        batch.inputs,
        batch.labels,
        loss_fn=probe.loss_fn,
        given_labels=given,
    )
    own = () if given is None else (NoisyValidationSignal(given),)
    predicts = _needs_predictions(batch, probe.policy, has_given_labels=given is not None)
    return Tracker(probe, batch, Signals([*own, *signals], context), predicts=predicts)


def _try_out(tracker: Tracker, probe: Probe) -> None:
    """Probe once as a trial: warn of problems, and record the reading before training."""
    uncopied = Uncopied({"model": unwrap(probe.model), "loss_fn": probe.loss_fn})
    batch = tracker.batch
    trial = probe.check(batch.inputs, batch.labels, predicts=tracker.predicts)
    for warning in (*_warn_of_uncopied(uncopied), *trial.warnings):
        warnings.warn(warning, stacklevel=3)
    tracker.start = list_zetas(trial.measurement, probe.num_classes, probe.policy)


def _find_source(inputs: Any, take: Callable[[Any], Inputs] | None) -> Any:  # noqa: ANN401
    if is_dataset(inputs):
        return SampleSource(inputs, take)
    if is_bundle(inputs):
        raise InputError(
            f"`inputs` of type {type(inputs).__name__} does not say which rows of the model's "
            "output are samples. Wrap it: rote.Samples(data, axis=None, rows=…), with a mask or "
            "indices of nodes, or how many of the first."
        )
    if take is not None:
        raise InputError(
            f"`take` applies to a dataset or loader only, not to a {type(inputs).__name__}. Pass "
            "the inputs alone."
        )
    return inputs


def _check_order(inputs: object, per_sample: Mapping[str, object]) -> None:
    for name, values in per_sample.items():
        if values is not None and is_dataset(inputs):
            raise InputError(
                f"`{name}` needs samples in a known order, and only some samples of a "
                f"{type(inputs).__name__} are drawn. Pass the samples themselves as `inputs`."
            )


def _warn_of_uncopied(uncopied: Uncopied) -> Iterator[RoteWarning]:
    if names := uncopied.list_paths():
        yield UncopiedStateWarning(
            f"The probe cannot restore {', '.join(names)}, which the model or `loss_fn` holds. If "
            "a pass changes it, training with the tracker differs from training without it. Keep "
            "such state in tensors, attributes or containers."
        )


def _collect_facts(tracker: Tracker, probe: Probe, given: np.ndarray | None) -> dict[str, str]:
    """Return the settings that must agree on all ranks for a mean over them to be meaningful."""
    if count_ranks() == 1:
        return {}
    batch = tracker.batch
    parameters = unwrap(probe.model).named_parameters()
    shapes = {name: tuple(parameter.shape) for name, parameter in parameters}
    return {
        "`num_classes`": str(probe.num_classes),
        "`policy`": str(tracker.policy.describe()),
        "`inputs`": batch.holdout_hash or hash_content(batch.inputs),
        "random labels (`labels`, `seed`)": hash_content(batch.labels),
        "`given_labels`": "none" if given is None else sha256(given.tobytes()).hexdigest(),
        "the shapes of `model`'s parameters": sha256(repr(shapes).encode()).hexdigest(),
    }


def _check_saving(targets: tuple[Target, ...], name: str | None, *, resume: bool) -> None:
    if resume and not targets:
        raise InputError("resume=True needs `save_to`, the run to resume.")
    if name is not None and not targets:
        raise InputError(
            f"Run {name!r} has no place to be kept: `name` needs `save_to`. Pass both, or no name."
        )


def _check_given(
    given_labels: Tensor, batch: RandomBatch, policy: ProbePolicy, num_classes: int
) -> np.ndarray:
    if not policy.record_predictions:
        raise InputError(
            "`given_labels` need a policy that predicts them, and this one has "
            "record_predictions=False. Pass only one of the two."
        )
    if batch.holdout is None:
        raise InputError(
            "`given_labels` need fixed `inputs`, and this function brings new ones for every "
            "probe. Pass the samples themselves, or resample=False."
        )
    shape = (count_samples(batch.holdout), *batch.labels.shape[1:])
    return as_given_labels(given_labels, shape=shape, num_classes=num_classes)


def _check_votes(votes: object, batch: RandomBatch, num_classes: int) -> np.ndarray:
    found = votes.detach().cpu().numpy() if isinstance(votes, Tensor) else np.asarray(votes)
    size = None if batch.holdout is None else count_samples(batch.holdout)
    wrong = find_vote_fault(found, (size, num_classes))
    if wrong is not None or batch.labels.dim() > 1:
        raise InputError(
            f"Expected `neighbor_votes` to be those of fixed `inputs` with one label per sample; "
            f"{wrong or 'their labels are many'}. Make them with rote.neighbor_votes(..., "
            f"num_classes={num_classes})."
        )
    return found


def _needs_predictions(batch: RandomBatch, policy: ProbePolicy, *, has_given_labels: bool) -> bool:
    """Return whether the classes of the holdout are predicted and recorded at every probe."""
    if batch.holdout is None or not policy.record_predictions:
        return False
    return has_given_labels or count_samples(batch.holdout) > policy.batch


def _open_run(
    tracker: Tracker,
    probe: Probe,
    targets: tuple[Target, ...],
    given: np.ndarray | None,
    votes: np.ndarray | None,
    *,
    seed: int,
    name: str | None,
    resume: bool,
) -> None:
    description = describe_run(
        probe,
        tracker.batch,
        tracker.signals,
        predicts=tracker.predicts,
        given_labels=given,
        neighbor_votes=votes,
        seed=seed,
        name=get_run_name(targets) if name is None else str(name),
        start=tracker.start,
    )
    try:
        run = open_sinks(targets, description, resume=resume)
    except RunExistsError as error:
        advice = " Pass resume=True to continue the run that is there." if error.place else ""
        raise RunExistsError(error.problem, error.place, f"{error.remedy}{advice}") from error
    try:
        for place, found in run.found:
            check_same_run(found, description, place)
            tracker.start = read_start(found)
        if votes is not None:
            run.write_votes(votes)
        tracker.write_to(run, resumed=resume)
    except BaseException:
        run.close()
        raise
