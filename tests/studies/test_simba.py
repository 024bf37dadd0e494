"""SimBA against one image and one pixel at a time."""

import numpy as np
import pytest
import torch
from torch import nn

from rote.studies.simba import attack_by_pixels

pytestmark = pytest.mark.slow

SHAPE, CLASSES = (2, 3, 3), 4


def problem(seed: int, images: int = 12) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(SHAPE)), CLASSES)).double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator, dtype=torch.double))
    x = torch.rand(images, *SHAPE, generator=generator, dtype=torch.double)
    return model, x, model(x).argmax(1)


def naive(
    model: nn.Module, image: torch.Tensor, label: int, order: list[int], epsilon: float
) -> tuple[np.ndarray, int, bool]:
    """As published: one image, one query at a time."""
    weight, bias = (parameter.detach().numpy() for parameter in model[1].parameters())  # type: ignore[index]

    def query(x: np.ndarray) -> tuple[float, int]:
        logits = weight @ x + bias
        odds = np.exp(logits - logits.max())
        return float(odds[label] / odds.sum()), int(logits.argmax())

    x = image.numpy().ravel().copy()
    best, predicted = query(x)
    tried = 0
    for place in order:
        if predicted != label:
            break
        tried += 1
        for alpha in (epsilon, -epsilon):
            other = x.copy()
            other[place] = min(max(other[place] + alpha, 0.0), 1.0)
            probability, now = query(other)
            if probability < best:
                x, best, predicted = other, probability, now
                break
    return x, tried, predicted != label


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("iterations", [3, 18])
def test_attacking_all_images_at_once_equals_one_by_one(seed: int, iterations: int) -> None:
    model, images, labels = problem(seed)
    size = images[0].numel()
    labels[0] = (labels[0] + 1) % CLASSES  # predicted wrongly from the start
    order = torch.stack([torch.randperm(size) for _ in images])[:, :iterations]
    zeros, ones = torch.zeros(size, dtype=torch.double), torch.ones(size, dtype=torch.double)
    found = attack_by_pixels(model, images, labels, order, epsilon=0.2 * ones, low=zeros, high=ones)
    for i, image in enumerate(images):
        x, tried, fooled = naive(model, image, int(labels[i]), order[i].tolist(), 0.2)
        np.testing.assert_allclose(found.images[i].numpy().ravel(), x, atol=1e-12)
        assert (int(found.tried[i]), bool(found.fooled[i])) == (tried, fooled)
    assert found.fooled[0]
    assert found.tried[0] == 0
    assert int(found.fooled[1:].sum()) > 0 or iterations == 3


def test_images_and_network_are_unchanged() -> None:
    model, images, labels = problem(0)
    before, weights = images.clone(), [weight.clone() for weight in model.parameters()]
    order = torch.arange(images[0].numel()).expand(len(images), -1)
    ends = torch.full((images[0].numel(),), 1.0, dtype=torch.double)
    found = attack_by_pixels(
        model, images, labels, order, epsilon=0.5 * ends, low=0 * ends, high=ends
    )
    assert torch.equal(images, before)
    assert all(map(torch.equal, model.parameters(), weights))
    assert found.images.min() >= 0
    assert found.images.max() <= 1
