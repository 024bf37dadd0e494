"""The accuracy that a tracker measures for its caller, against a naive loop over samples."""

import pytest
import torch
from torch import nn

import rote
from rote.errors import InputError
from rote.labels import IGNORE_INDEX, PerToken
from rote.snapshot.fingerprint import take_fingerprint


def tracked() -> tuple[nn.Module, rote.Tracker]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))
    optimizer = torch.optim.Adam(model.parameters())
    return model, rote.track(model, optimizer, inputs=torch.randn(7, 5), num_classes=3)


def test_accuracy_is_the_share_of_labels_predicted_in_eval_mode() -> None:
    model, tracker = tracked()
    x, y = torch.randn(40, 5), torch.randint(3, (40,))
    y[:4] = IGNORE_INDEX
    found = tracker.accuracy(x, y)
    model.eval()
    with torch.no_grad():
        right = [int(model(x[[i]]).argmax()) == int(y[i]) for i in range(4, 40)]
    assert found == sum(right) / 36


def test_accuracy_changes_no_state() -> None:
    model, tracker = tracked()
    model(torch.randn(9, 5)).sum().backward()
    before, state = take_fingerprint(model), torch.get_rng_state()
    tracker.accuracy(torch.randn(40, 5, generator=torch.Generator()), torch.zeros(40).long())
    assert take_fingerprint(model) == before
    assert torch.equal(torch.get_rng_state(), state)
    assert not tracker.readings


def test_tokens_have_labels_of_their_own() -> None:
    model = nn.Linear(5, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    labels = PerToken(torch.ones(6, 4, dtype=torch.bool), 3)
    tracker = rote.track(
        model, optimizer, inputs=torch.randn(6, 4, 5), num_classes=3, labels=labels
    )
    x, y = torch.randn(10, 4, 5), torch.randint(3, (10, 4))
    assert tracker.accuracy(x, y) == (model(x).argmax(-1) == y).double().mean()


def test_labels_that_do_not_fit_are_refused() -> None:
    _, tracker = tracked()
    with pytest.raises(InputError, match=r"`labels` to be a tensor .* shape \(4,\), got shape"):
        tracker.accuracy(torch.randn(4, 5), torch.zeros(5).long())
    with pytest.raises(InputError, match="`labels` to be classes from 0 to 2, got 7"):
        tracker.accuracy(torch.randn(4, 5), torch.full((4,), 7))
