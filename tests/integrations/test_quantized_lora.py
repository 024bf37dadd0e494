"""Adapters of PEFT on a base that transformers loads quantized or in half precision."""

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
    AutoModelForSequenceClassification,
    BitsAndBytesConfig,
    LlamaForSequenceClassification,
)

from tests.integrations.trl_runs import VOCABULARY, build_config

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
