"""Tasks of Hugging Face Trainers: classification, causal language models, preferences.

A task says what the classes are, which labels a batch has, what network gives one row of logits per
label, and what the objective is. The classes of TRL are recognized by their names, so that TRL need
not be installed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, logsigmoid
from transformers import Trainer
from transformers.trainer_pt_utils import LabelSmoother

from rote.errors import InputError
from rote.integrations.messages import warn
from rote.integrations.training_batch import LabeledBatch, find_indices
from rote.integrations.training_signals import ForwardCall
from rote.labels import IGNORE_INDEX, LabelSampler
from rote.probe import LossFunction, count_ranks, find_logits, unwrap
from rote.snapshot import FrozenTensors, ObjectState, restore_after

_PACKING = ("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k", "seq_idx")
_DPO_SCORES = {"f_divergence_type": "reverse_kl", "ld_alpha": None, "use_weighting": False}
"""Options of ``DPOConfig`` that change what a response scores, with their defaults."""

_EMBEDDING_TRAINERS = (
    "SentenceTransformerTrainer",
    "SparseEncoderTrainer",
    "CrossEncoderTrainer",
    "MultiVectorEncoderTrainer",
)


@dataclass(frozen=True)
class Task:
    """Classification of samples or tokens; base of the other tasks.

    Attributes:
        trainer: The Trainer.
        seed: Seeds what a task draws at random.
    """

    trainer: Trainer
    seed: int = 0

    @property
    def model(self) -> Any:
        """The network, without wrappers of ranks and without PEFT."""
        model: Any = unwrap(self.trainer.model)
        return getattr(model, "get_base_model", lambda: model)()

    def num_classes(self) -> int | None:
        """Return the number of classes, if the model knows it."""
        return getattr(self.model.config, "num_labels", None)

    def build_network(self) -> nn.Module:
        """Return the network to probe."""
        found: nn.Module = self.trainer.model_wrapped
        return found

    def split(self, batch: object) -> LabeledBatch:
        """Split a batch of the collator into inputs and labels."""
        # Also where the model takes any keyword, and the Trainer finds no names of labels.
        return LabeledBatch.split(batch, [*self.trainer.label_names, "labels"])

    def random_labels(self, batch: LabeledBatch, num_classes: int) -> LabelSampler | None:
        """Return random labels of the kind of the given ones; ``None`` for one per sample."""
        return batch.random_labels(unwrap(self.trainer.model), num_classes)

    def observe(self, call: ForwardCall) -> tuple[LabeledBatch, Tensor | None]:
        """Return inputs and labels of a call in training, and its logits."""
        taken = {k: v for k, v in call.keywords.items() if k != "num_items_in_batch"}
        return self.split(taken), call.logits

    def find_rows(self, call: ForwardCall) -> Tensor | None:
        """Return which rows of the training set a call in training holds, if that is known."""
        return find_indices(call.keywords)

    def sample_losses(self, call: ForwardCall) -> Tensor | None:
        """Return one loss per sample of a call whose output has no logits, if it has them."""
        return None

    def objective(self) -> LossFunction | None:
        """Return the training objective; ``None`` for plain cross entropy."""
        trainer = self.trainer
        if type(trainer).compute_loss is not Trainer.compute_loss and not self.knows_objective():
            warn(
                f"{type(trainer).__name__} has a compute_loss of its own, which cannot be called "
                "with random labels: the probe uses cross entropy. Pass `loss_fn=`."
            )
        return self._custom_objective() or self._smoothed_objective()

    def knows_objective(self) -> bool:
        """Return whether the Trainer's own ``compute_loss`` is known to this task."""
        return False

    def _custom_objective(self) -> LossFunction | None:
        own = self.trainer.compute_loss_func
        if own is None:
            return None
        restore = self.restore_labels

        def objective(output: Any, labels: Tensor) -> Tensor:
            count = (labels != IGNORE_INDEX).sum()
            loss: Tensor = own(output, restore(labels), num_items_in_batch=count)
            return loss

        return objective

    def _smoothed_objective(self) -> LossFunction | None:
        epsilon = self.trainer.args.label_smoothing_factor
        if not epsilon:
            return None
        # A function, not the smoother: it is no module, and remembers nothing.
        smoother = LabelSmoother(epsilon=epsilon)
        return lambda output, labels: smoother(output, labels)

    def restore_labels(self, labels: Tensor) -> Tensor:
        """Return labels as the Trainer's own loss function expects them."""
        return labels

    def limit_holdout(self, size: int, samples: int) -> int:
        """Return the maximum number of holdout samples."""
        return size


class CausalLM(Task):
    """Next-token prediction: the label of a token is the token that follows it.

    Labels are shifted by one place here, once, so that logits and labels of one place belong
    together everywhere else: in losses, accuracies, predictions and signals. Packed batches are
    unpacked into one row per sequence.
    """

    def num_classes(self) -> int | None:
        head = self.model.get_output_embeddings()
        weight = getattr(head, "weight", None)
        return len(weight) if weight is not None else self.model.config.vocab_size

    def split(self, batch: object) -> LabeledBatch:
        found = super().split(batch)
        inputs = found.inputs
        if not isinstance(inputs, Mapping) or "input_ids" not in inputs:
            return found
        given = inputs["input_ids"] if found.given is None else found.given
        mask = inputs.get("attention_mask")
        if found.given is None and isinstance(mask, Tensor):
            given = given.masked_fill(mask == 0, IGNORE_INDEX)
        if "cu_seq_lens_q" in inputs:
            inputs, given = _unpack(inputs, given)
        kept = {key: value for key, value in inputs.items() if key not in _PACKING}
        return LabeledBatch(kept, shift_labels(given))

    def observe(self, call: ForwardCall) -> tuple[LabeledBatch, Tensor | None]:
        taken = dict(call.keywords)
        for name in ("num_items_in_batch", "fused_lm_head", "use_cache", *_PACKING):
            taken.pop(name, None)
        found, logits = super().split(taken), call.logits
        if found.given is not None:
            found = LabeledBatch(found.inputs, shift_labels(found.given))
        # Fused heads return no logits, or empty ones.
        return found, None if logits is None or not logits.numel() else logits

    def find_rows(self, call: ForwardCall) -> Tensor | None:
        """Return the rows of the training set, found by their tokens if there is no index.

        Raises:
            InputError: If a row of the batch holds several samples.
        """
        tokens, known = call.keywords.get("input_ids"), super().find_rows(call)
        if known is not None or tokens is None:
            return known
        if any(name in call.keywords for name in _PACKING):
            raise InputError(
                "Signal `csl` needs one row per sample, and rows of this training hold several. "
                "Pass packing=False and padding_free=False to SFTConfig, or leave the signal out."
            )
        return self._rows.find(tokens, call.keywords.get("attention_mask"))

    @cached_property
    def _rows(self) -> RowFinder:
        return RowFinder(self.trainer.train_dataset)

    def sample_losses(self, call: ForwardCall) -> Tensor | None:
        losses, mask = call.token_losses, call.token_mask
        if losses is None or mask is None or losses.dim() != 2:
            return None
        return losses.float().masked_fill(~mask, 0).sum(1) / mask.sum(1)

    def knows_objective(self) -> bool:
        loss_type = getattr(self.trainer.args, "loss_type", None)
        return _is_of("SFTTrainer", self.trainer) and loss_type in ("nll", "chunked_nll")

    def restore_labels(self, labels: Tensor) -> Tensor:
        first = labels.new_full((len(labels), 1), IGNORE_INDEX)
        return torch.cat([first, labels[:, :-1]], 1)

    def limit_holdout(self, size: int, samples: int) -> int:
        return min(size, samples)  # each of its tokens has a logit per word of the vocabulary


class RowFinder:
    """Find the rows of a tokenized dataset by their tokens.

    Collators of language models drop every other column, an index included. Rows with the same
    tokens are taken in turn.

    Args:
        dataset: A dataset with a column ``input_ids``.

    Raises:
        InputError: If it has none.

    Example:
        >>> finder = RowFinder([{"input_ids": [5, 6]}, {"input_ids": [7]}, {"input_ids": [5, 6]}])
        >>> tokens = torch.tensor([[7, 0], [5, 6], [5, 6]])
        >>> finder.find(tokens, tokens > 0)
        tensor([1, 0, 2])
    """

    def __init__(self, dataset: Any) -> None:
        self._rows: dict[tuple[int, ...], deque[int]] = {}
        for at, row in enumerate(dataset):
            if "input_ids" not in row:
                raise InputError(
                    "The rows of the training set have no `input_ids`, so that a sample of a batch "
                    "cannot be found in it. Add a column `index` that reaches the model."
                )
            self._rows.setdefault(tuple(int(t) for t in row["input_ids"]), deque()).append(at)

    def find(self, tokens: Tensor, mask: Tensor | None) -> Tensor | None:
        """Return the row of each sample of a batch; ``None`` if one is not found."""
        kept = torch.ones_like(tokens) if mask is None else mask
        found = []
        for row, is_token in zip(tokens.tolist(), kept.tolist(), strict=True):
            key = tuple(token for token, keep in zip(row, is_token, strict=True) if keep)
            if key not in self._rows:
                return None
            found.append(self._rows[key][0])
            self._rows[key].rotate(-1)
        return torch.tensor(found)


class Preferences(Task):
    """Pairs of responses: the label is which one wins (0 or 1).

    The order within a pair is shuffled once, by seed, and the label says where the chosen response
    is. Random labels therefore swap pairs by a coin.
    """

    def num_classes(self) -> int:
        return 2

    def build_network(self) -> nn.Module:
        if count_ranks() > 1:
            raise InputError("Preferences can be probed on one rank only.")
        if _is_of("DPOTrainer", self.trainer):
            return DpoScores(self.trainer.model_wrapped, float(getattr(self.trainer, "beta", 0.1)))
        return RewardScores(self.trainer.model_wrapped)

    def split(self, batch: object) -> LabeledBatch:
        if not isinstance(batch, Mapping):
            return LabeledBatch(batch)
        columns = dict(batch)
        if "margin" in columns:
            raise InputError(
                "A margin per pair belongs to its label, which the probe replaces. Remove the "
                "column `margin`, or use rote.track with your own objective."
            )
        if _is_of("DPOTrainer", self.trainer):
            columns |= self._compute_reference(columns)
            pairs = columns.pop("ref_chosen_logps"), columns.pop("ref_rejected_logps")
            columns["reference"] = torch.cat(pairs)
        pairs_of = {
            key: torch.stack(value.chunk(2), 1)
            for key, value in columns.items()
            if isinstance(value, Tensor)
        }
        count = len(next(iter(pairs_of.values())))
        generator = torch.Generator().manual_seed(self.seed)
        given = torch.randint(2, (count,), generator=generator)
        swapped = given.bool()
        shuffled = {
            key: torch.where(
                swapped.to(value.device).view(-1, *[1] * (value.dim() - 1)), value.flip(1), value
            )
            for key, value in pairs_of.items()
        }
        return LabeledBatch(shuffled, given)

    def random_labels(self, batch: LabeledBatch, num_classes: int) -> None:
        return None

    def observe(self, call: ForwardCall) -> tuple[LabeledBatch, Tensor | None]:
        logits = call.logits
        if logits is None or _is_of("DPOTrainer", self.trainer):
            return LabeledBatch(None), None
        pairs = torch.stack(logits.reshape(-1).chunk(2), 1)  # the chosen response comes first
        return LabeledBatch(None, torch.zeros(len(pairs), dtype=torch.long)), pairs

    def objective(self) -> LossFunction | None:
        if _is_of("DPOTrainer", self.trainer):
            return self._dpo_objective()
        centering = getattr(self.trainer.args, "center_rewards_coefficient", None)
        if not centering:
            return None

        def objective(output: Any, labels: Tensor) -> Tensor:
            rewards = find_logits(output)
            assert rewards is not None
            centered: Tensor = centering * rewards.sum(1).square().mean()
            return cross_entropy(rewards, labels) + centered

        return objective

    def _dpo_objective(self) -> LossFunction:
        kinds = list(getattr(self.trainer, "loss_types", ["sigmoid"]))
        weights = list(getattr(self.trainer, "loss_weights", None) or [1.0] * len(kinds))
        epsilon = float(getattr(self.trainer.args, "label_smoothing", 0.0))
        unknown = [kind for kind in kinds if kind not in ("sigmoid", "robust", "hinge")]
        if unknown:
            warn(
                f"loss_type={unknown[0]!r} cannot be evaluated with random labels: the probe uses "
                "'sigmoid'. Pass `loss_fn=`, which takes the two scores of each pair and labels."
            )
            kinds, weights = ["sigmoid"], [1.0]
        for name, usual in _DPO_SCORES.items():
            if getattr(self.trainer.args, name, usual) != usual:
                warn(
                    f"DPOConfig({name}=...) changes the scores of responses; the probe takes "
                    "β times their log-ratios. Readings are not of the training objective."
                )

        def objective(output: Any, labels: Tensor) -> Tensor:
            scores = find_logits(output)
            assert scores is not None
            rows = torch.arange(len(scores), device=scores.device)
            lead = scores[rows, labels] - scores[rows, 1 - labels]
            losses = [
                w * _compute_dpo_loss(k, lead, epsilon) for k, w in zip(kinds, weights, strict=True)
            ]
            return torch.stack(losses).sum(0).mean()

        return objective

    def _compute_reference(self, batch: Mapping[str, Any]) -> dict[str, Tensor]:
        """Compute the reference model's log-probabilities, unless the batch has them."""
        if "ref_chosen_logps" in batch:
            return {}
        trainer: Any = self.trainer
        network = trainer.model if trainer.ref_model is None else trainer.ref_model
        count = len(batch["input_ids"]) // 2
        size = max(trainer.args.per_device_train_batch_size, 1)
        device = next(network.parameters()).device
        # A pass in eval mode may pack quantized weights.
        parameters = tuple(network.parameters())
        memory = FrozenTensors(parameters)
        with restore_after(ObjectState(network, without=parameters)):
            network.eval()
            try:
                found = [
                    trainer.compute_ref_log_probs(
                        network, _cut_pairs(batch, start, size, count, device)
                    )
                    for start in range(0, count, size)
                ]
            finally:
                memory.rebind()
        chosen, rejected = (torch.cat(parts).float().cpu() for parts in zip(*found, strict=True))
        return {"ref_chosen_logps": chosen, "ref_rejected_logps": rejected}


class PairScores(nn.Module, ABC):
    """A network that scores both responses of each pair: logits of shape (pairs, 2).

    Args:
        model: The network of the Trainer.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, **pairs: Tensor) -> Tensor:
        """Score pairs, whose tensors have the shape (pairs, 2, ...)."""
        rows = {key: value.flatten(0, 1) for key, value in pairs.items()}
        return self.score(rows).reshape(-1, 2)

    @abstractmethod
    def score(self, rows: dict[str, Tensor]) -> Tensor:
        """Return one score per response."""


class RewardScores(PairScores):
    """Scores are the rewards: their softmax is the Bradley–Terry model."""

    def score(self, rows: dict[str, Tensor]) -> Tensor:
        logits: Tensor = self.model(**rows, use_cache=False).logits
        return logits.float()


class DpoScores(PairScores):
    """Scores are β times the log-ratio of policy and reference.

    Args:
        model: The policy.
        beta: β of the trainer.
    """

    def __init__(self, model: nn.Module, beta: float) -> None:
        super().__init__(model)
        self.beta = beta

    def score(self, rows: dict[str, Tensor]) -> Tensor:
        mask, reference = rows.pop("completion_mask"), rows.pop("reference")
        logits = self.model(**rows, use_cache=False).logits.float()
        labels = rows["input_ids"].masked_fill(mask == 0, IGNORE_INDEX)[:, 1:]
        losses = cross_entropy(
            logits[:, :-1].flatten(0, 1),
            labels.flatten(),
            ignore_index=IGNORE_INDEX,
            reduction="none",
        )
        return self.beta * (-losses.reshape(labels.shape).sum(1) - reference)


def find_task(trainer: Trainer, seed: int, *, is_told: bool) -> Task:
    """Return the task of a Trainer.

    Args:
        trainer: The Trainer.
        seed: Seeds what the task draws at random.
        is_told: Whether the user has said what the inputs and the objective are.

    Raises:
        InputError: If the Trainer has no classes and the user did not say what to probe.
    """
    if _is_of("RewardTrainer", trainer) or _is_of("DPOTrainer", trainer):
        return Preferences(trainer, seed)
    if any(_is_of(name, trainer) for name in _EMBEDDING_TRAINERS) and not is_told:
        raise InputError(
            f"{type(trainer).__name__} computes its loss from texts, which the callback cannot "
            "relabel. Pass `inputs=(tokens,)` (a tuple with the dictionary of tokenized "
            "samples), `num_classes=` and `loss_fn=`, a function of the model's output and "
            "labels. For a CrossEncoder, pass loss_fn=rote.LogitsAt('scores')."
        )
    is_of_trl = any(kind.__module__.startswith("trl.") for kind in type(trainer).__mro__)
    if is_of_trl and not _is_of("SFTTrainer", trainer) and not is_told:
        raise InputError(
            f"The callback cannot compute the loss of {type(trainer).__name__} with random labels. "
            "Of TRL's trainers it knows SFTTrainer, RewardTrainer and DPOTrainer. For others, pass "
            "`inputs=`, `num_classes=` and `loss_fn=`, a function of the model's output and labels."
        )
    task = Task(trainer, seed)
    kind, name = getattr(task.model, "loss_type", None), type(task.model).__name__
    is_causal = kind == "ForCausalLM" or name.endswith(("ForCausalLM", "LMHeadModel"))
    return CausalLM(trainer, seed) if is_causal else task


def shift_labels(labels: Tensor) -> Tensor:
    """Move labels one place to the left; the last place of a row has none.

    Example:
        >>> shift_labels(torch.tensor([[5, 6, 7]]))
        tensor([[   6,    7, -100]])
    """
    last = labels.new_full((len(labels), 1), IGNORE_INDEX)
    return torch.cat([labels[:, 1:], last], 1)


def _is_of(name: str, trainer: Trainer) -> bool:
    """Return whether a Trainer is of a class of another package, by its name."""
    return any(kind.__name__ == name for kind in type(trainer).__mro__)


def _unpack(inputs: Mapping[str, Any], given: Tensor) -> tuple[dict[str, Any], Tensor]:
    """Give every sequence of a packed batch a row of its own, padded on the right."""
    tokens, places = inputs["input_ids"].flatten(), inputs["position_ids"].flatten()
    starts = (places == 0).nonzero().flatten().tolist()
    ends = [*starts[1:], len(tokens)]
    width = max(end - start for start, end in zip(starts, ends, strict=True))
    rows: dict[str, Any] = {
        "input_ids": tokens.new_zeros(len(starts), width),
        "attention_mask": tokens.new_zeros(len(starts), width),
    }
    labels = given.new_full((len(starts), width), IGNORE_INDEX)
    flat = given.flatten()
    for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
        rows["input_ids"][row, : end - start] = tokens[start:end]
        rows["attention_mask"][row, : end - start] = 1
        labels[row, : end - start] = flat[start:end]
    return rows, labels


def _cut_pairs(
    batch: Mapping[str, Any], start: int, size: int, count: int, device: torch.device
) -> dict[str, Any]:
    """Take some pairs of a batch in which all chosen responses come before the rejected ones."""
    ends = min(start + size, count)
    return {
        key: torch.cat([value[start:ends], value[count + start : count + ends]]).to(device)
        for key, value in batch.items()
        if isinstance(value, Tensor) and len(value) == 2 * count
    }


def _compute_dpo_loss(kind: str, lead: Tensor, epsilon: float) -> Tensor:
    """Return the loss per pair; ``lead`` is β times the winner's lead over the loser."""
    if kind == "hinge":
        return torch.relu(1 - lead)
    if kind == "robust":
        mixed = -(1 - epsilon) * logsigmoid(lead) + epsilon * logsigmoid(-lead)
        return mixed / (1 - 2 * epsilon)
    return -logsigmoid(lead)
