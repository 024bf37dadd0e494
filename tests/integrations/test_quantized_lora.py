"""Adapters of PEFT on a base that transformers loads quantized or in half precision."""

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import rote

pytest.importorskip("peft", reason="needs peft")
pytest.importorskip("bitsandbytes", reason="needs bitsandbytes")
pytest.importorskip("datasets", reason="needs rote[datasets]")

from peft import LoraConfig, get_peft_model
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    BitsAndBytesConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
)

from rote.integrations.huggingface import SusceptibilityCallback
from tests.integrations.trl_runs import (
    VOCABULARY,
    arguments,
    build_config,
    build_texts,
    build_tokenizer,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("huggingface")]

CLASSES, BATCH = 4, 8
LOADING: dict[str, dict[str, Any]] = {
    "8 bits": {"quantization_config": BitsAndBytesConfig(load_in_8bit=True)},
    "nf4": {
        "quantization_config": BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True
        )
    },
    "bfloat16": {"dtype": torch.bfloat16},
}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    # On CPUs with AVX512-BF16, bitsandbytes packs 4-bit weights in multiples of these sizes.
    config = build_config(num_labels=CLASSES, hidden_size=64, intermediate_size=128)
    LlamaForSequenceClassification(config).save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.filterwarnings("ignore:MatMul8bitLt")
@pytest.mark.parametrize("kind", LOADING)
def test_adapters_train_the_same_with_probes(kind: str, saved: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(3, VOCABULARY, (BATCH + 24, 12), generator=generator)
    labels = torch.arange(len(tokens)) % CLASSES
    drops: list[float] = []

    def train(*, probed: bool) -> list[Tensor]:
        model = AutoModelForSequenceClassification.from_pretrained(
            saved, num_labels=CLASSES, **LOADING[kind]
        )
        torch.manual_seed(1)
        adapters = LoraConfig(
            task_type="SEQ_CLS", r=4, lora_dropout=0.1, target_modules=["q_proj", "v_proj"]
        )
        # Adapters in the type of their base, the hardest case for a reading.
        model = get_peft_model(model, adapters, autocast_adapter_dtype=kind != "bfloat16")
        model.train()
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=1e-3)
        if probed:
            tracker = rote.track(
                model,
                optimizer,
                inputs={"input_ids": tokens[BATCH:]},
                num_classes=CLASSES,
                given_labels=labels[BATCH:],
                policy=rote.ProbePolicy(batch=12, verify=True),
            )
        for _ in range(3):
            optimizer.zero_grad()
            logits = model(input_ids=tokens[:BATCH]).logits.float()
            cross_entropy(logits, labels[:BATCH]).backward()
            optimizer.step()
            if probed:
                reading = tracker.probe()
                assert reading is not None
                assert reading.flags == ()
                drops.append(reading.drop)
        model.eval()
        with torch.no_grad():
            return [model(input_ids=tokens).logits, *(p.detach().clone() for p in trained)]

    assert all(map(torch.equal, train(probed=False), train(probed=True)))
    # A loss in bfloat16 has steps of 1/128 here, and drops are smaller than that.
    assert all(drop > 0 and drop * 128 != round(drop * 128) for drop in drops)


@pytest.mark.filterwarnings("ignore:MatMul8bitLt")
@pytest.mark.parametrize("kind", ["8 bits", "nf4"])
def test_qlora_in_trl_trains_the_same(kind: str, tmp_path: Path) -> None:
    trl: Any = pytest.importorskip("trl", reason="needs trl")
    torch.manual_seed(0)
    config = build_config(hidden_size=64, intermediate_size=128)
    LlamaForCausalLM(config).save_pretrained(tmp_path / "base")
    options = {"bf16": True, "gradient_checkpointing": True, "num_train_epochs": 1}

    def train(callback: SusceptibilityCallback | None) -> dict[str, Tensor]:
        trainer = trl.SFTTrainer(
            AutoModelForCausalLM.from_pretrained(tmp_path / "base", **LOADING[kind]),
            args=trl.SFTConfig(**arguments(tmp_path / "out", **options)),
            train_dataset=build_texts(16),
            eval_dataset=build_texts(12, seed=1),
            processing_class=build_tokenizer(),
            peft_config=LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["q_proj", "v_proj"]),
            callbacks=[] if callback is None else [callback],
        )
        trainer.train()
        return trainer.model.state_dict()  # type: ignore[no-any-return]

    with warnings.catch_warnings():
        warnings.simplefilter("error", rote.errors.RoteWarning)
        probed = train(SusceptibilityCallback(policy=rote.ProbePolicy(verify=True)))
    bare = train(None)
    assert bare.keys() == probed.keys()
    assert all(torch.equal(bare[name], probed[name]) for name in bare)
