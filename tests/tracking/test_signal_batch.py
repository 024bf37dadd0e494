"""Batches that wait: the same rows as one by one, shared, and forgotten once they are taken."""

import gc
import weakref

import pytest
import torch

from rote.tracking import Batch, WaitingBatches
from rote.tracking.signals import AT_ONCE


def batches_of(*sizes: int, classes: int = 3) -> list[Batch]:
    generator = torch.Generator().manual_seed(0)
    return [
        Batch(
            torch.randint(classes, (size,), generator=generator),
            torch.randn(size, classes, generator=generator),
            indices=torch.randint(100, (size,), generator=generator),
        )
        for size in sizes
    ]


def waiting_for(batches: list[Batch]) -> WaitingBatches:
    waiting = WaitingBatches()
    for batch in batches:
        waiting.add(batch)
    return waiting


def test_batches_are_joined_in_order() -> None:
    batches = batches_of(4, 1, 5)
    found = waiting_for(batches).take()
    assert found is not None
    assert found.indices is not None
    assert torch.equal(found.logits, torch.cat([batch.logits for batch in batches]))
    assert torch.equal(found.labels, torch.cat([batch.labels for batch in batches]))
    assert found.indices.tolist() == [i for b in batches for i in b.places("x").tolist()]
    one_by_one = [row for b in batches for row in b.logits.softmax(1).tolist()]
    assert found.shares.tolist() == one_by_one
    assert found.predicted.tolist() == [row.index(max(row)) for row in found.logits.tolist()]


def test_tokens_are_rows_and_ignored_ones_are_left_out() -> None:
    labels = [torch.tensor([[0, 1], [-100, 2]]), torch.tensor([[1, -100, 0]])]
    logits = [torch.arange(12.0).reshape(2, 2, 3), torch.arange(9.0).reshape(1, 3, 3)]
    batches = [Batch(*pair) for pair in zip(labels, logits, strict=True)]
    found = waiting_for(batches).take()
    assert found is not None
    assert found.counted.labels.tolist() == [0, 1, 2, 1, 0]
    assert found.counted.logits[:, 0].tolist() == [0.0, 3.0, 9.0, 0.0, 6.0]
    rows = [batch.rows("x") for batch in batches]
    assert torch.equal(found.counted.logits, torch.cat([logits for logits, _ in rows]))
    assert torch.equal(found.counted.labels, torch.cat([labels for _, labels in rows]))


def test_signals_that_wait_for_the_same_share_it_and_others_do_not() -> None:
    batches = batches_of(4, 2, 5)
    one, other, late = waiting_for(batches), waiting_for(batches), waiting_for(batches[1:])
    found, again, part = one.take(), other.take(), late.take()
    assert found is again
    assert part is not None
    assert len(part.labels) == 7
    assert one.take() is None


def test_taken_batches_are_released() -> None:
    gc.disable()
    try:
        batches = batches_of(4, 2)
        found = waiting_for(batches).take()
        assert found is not None
        assert found.counted is found
        gone = [weakref.ref(found), *(weakref.ref(batch) for batch in batches)]
        del batches, found
        assert [reference() for reference in gone] == [None] * 3
    finally:
        gc.enable()


@pytest.mark.parametrize("size", [AT_ONCE // 4 - 1, AT_ONCE // 4])
def test_pending_batch_is_a_copy(size: int) -> None:
    (batch,) = batches_of(size, classes=4)
    waiting = WaitingBatches()
    must_be_taken = waiting.add(batch)
    found = waiting.take()
    assert found is not None
    assert must_be_taken == (found.logits.data_ptr() == batch.logits.data_ptr())
    assert must_be_taken == (size * 4 >= AT_ONCE)
