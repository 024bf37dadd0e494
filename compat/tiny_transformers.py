"""Models of transformers, built from configurations that are made small; nothing is downloaded."""

from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from compat.check import Subject

CLASSES = 4
WORDS = 99
BATCH, LENGTH = 3, 8
LARGEST = 30_000_000
"""Parameters; a configuration that cannot be made smaller is not tried."""

SIZES: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embedding_size"), 32),
    **dict.fromkeys(("word_embed_proj_dim", "rnn_hidden_size", "entity_emb_size"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers"), 2),
    **dict.fromkeys(("encoder_layers", "decoder_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "num_heads", "n_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "d_ff", "n_inner", "d_inner"), 64),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim", "ffn_hidden_size", "hidden_dim"), 64),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size"), 16),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "n_group", "topk_group"), 1),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank", "v_head_dim", "qk_nope_head_dim"), 8),
    **dict.fromkeys(("head_dim", "d_kv", "attention_head_size", "qk_rope_head_dim"), 8),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "seq_length"), 64),
    "first_k_dense_replace": 1,
    "num_key_value_heads": 2,
    "vocab_size": WORDS,
    "sliding_window": 16,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "use_cache": False,
    "image_size": 64,
    "mamba_d_state": 8,
    "state_size": 8,
}


ODD: dict[str, dict[str, Any]] = {
    **{
        kind: {"num_key_value_heads": 4}
        for kind in (
            *("axk1", "axk2", "deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe_lite"),
            *("longcat_flash", "minicpm3", "mistral4", "youtu"),
        )
    },
    "gptj": {"rotary_dim": 4},
    "codegen": {"rotary_dim": 4},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "lilt": {"hidden_size": 48},
    "layoutlmv3": {"coordinate_size": 5, "shape_size": 6},
    "t5": {"decoder_start_token_id": 1},
}
"""What must fit together in some of them."""


def tiny(task: str, kind: str) -> Subject:
    """Return a model of a kind (``bert``, ``vit``) with the head of a task.

    Args:
        task: sequence, tokens, image or words, as in :func:`kinds`.
        kind: its name among the configurations.

    Raises:
        ValueError: if it stays large.
    """
    library = import_module("transformers")
    labels = {} if task == "words" else {"num_labels": CLASSES}
    config = _shrunk(library.CONFIG_MAPPING[kind], labels | ODD.get(kind, {}))
    build = getattr(library, TASKS[task]).from_config
    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in build(config).parameters())
    if size > LARGEST:
        raise ValueError(f"{size:,} parameters are left of it, more than {LARGEST:,}")
    model: nn.Module = build(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    if task == "image":
        inputs = {"pixel_values": torch.randn(2, 3, 64, 64)}
        return Subject(model, optimizer, inputs, CLASSES, (2,))
    words = torch.randint(3, WORDS, (BATCH, LENGTH))
    words[:, -1] = 2
    inputs = {"input_ids": words, "attention_mask": torch.ones_like(words)}
    if task == "sequence":
        return Subject(model, optimizer, inputs, CLASSES, (BATCH,))
    classes = WORDS if task == "words" else CLASSES
    return Subject(model, optimizer, inputs, classes, (BATCH, LENGTH), _of_tokens)


TASKS = {
    "sequence": "AutoModelForSequenceClassification",
    "image": "AutoModelForImageClassification",
    "words": "AutoModelForCausalLM",
    "tokens": "AutoModelForTokenClassification",
}
"""Which class builds a model for a task."""

_LISTS = {
    "sequence": "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
    "image": "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
    "tokens": "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES",
    "words": "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
}


def kinds(task: str) -> list[str]:
    """All models that transformers has for a task, by the names of their configurations."""
    return list(getattr(import_module("transformers.models.auto.modeling_auto"), _LISTS[task]))


def _shrunk(kind: Any, more: dict[str, Any]) -> Any:
    usual = kind()
    known = {
        name: value
        for name, value in SIZES.items()
        if isinstance(getattr(usual, name, ""), int | None)  # lists differ by layer
        and not isinstance(getattr(kind, name, None), property)
    }
    inner = {
        name: _shrunk(type(part), {}).to_dict()
        for name, part in vars(usual).items()
        if isinstance(part, import_module("transformers").PreTrainedConfig)
    }
    return kind(**known | inner | more)


def _of_tokens(output: Any, labels: Tensor) -> Tensor:
    return functional.cross_entropy(output.logits.transpose(1, 2), labels)
