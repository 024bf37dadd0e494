from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import nn

from rote.errors import InputError
from rote.theory import empirical_gram, relu_gram

FloatArray = npt.NDArray[np.float64]
Rows = Callable[..., FloatArray]


class TwoLayer(nn.Module):
    """The paper's network as a torch module."""

    def __init__(self, features: int, width: int, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.hidden = nn.Linear(features, width, bias=False)
        self.hidden.weight.data.normal_(generator=generator)
        signs = torch.randint(0, 2, (width,), generator=generator) * 2.0 - 1
        self.register_buffer("signs", signs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        signs = self.get_buffer("signs")
        outputs: torch.Tensor = torch.relu(self.hidden(x)) @ signs / len(signs) ** 0.5
        return outputs


def loop_gram(module: nn.Module, x: torch.Tensor) -> FloatArray:
    """One backward pass for each sample and output."""
    module = module.double()
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    rows = []
    for sample in x.double():
        outputs = module(sample[None]).flatten()
        gradients = [
            torch.autograd.grad(output, parameters, retain_graph=True) for output in outputs
        ]
        rows.append(torch.stack([torch.cat([g.flatten() for g in each]) for each in gradients]))
    jacobian = torch.stack(rows)
    gram = torch.einsum("iop,jop->ij", jacobian, jacobian) / jacobian.shape[1]
    return np.asarray(gram.numpy())


def test_linear_module_has_the_gram_matrix_of_its_inputs(unit_rows: Rows) -> None:
    x = unit_rows(5, 3)
    result = empirical_gram(nn.Linear(3, 1), x)
    np.testing.assert_allclose(result, x @ x.T + 1, rtol=1e-14)


@pytest.mark.parametrize("block", [1, 2, 64])
def test_products_are_those_of_single_gradients(block: int) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Tanh(), nn.Flatten(), nn.Linear(8, 3)
    ).eval()
    x = torch.randn(5, 1, 4, 4)
    result = empirical_gram(module, x, block=block)
    np.testing.assert_allclose(result, loop_gram(module, x), rtol=1e-12)


def test_two_layer_network_has_the_papers_gram_matrix(unit_rows: Rows) -> None:
    """H_ij(0) = x_i·x_j / m Σ_r 1{w_r·x_i >= 0, w_r·x_j >= 0}, and near H∞ when wide."""
    x = unit_rows(6, 4)
    module = TwoLayer(4, 20_000)
    result = empirical_gram(module, torch.tensor(x))
    weights = module.hidden.weight.detach().double().numpy()
    is_active = (x @ weights.T >= 0).astype(float)
    frequency = is_active @ is_active.T / 20_000
    np.testing.assert_allclose(result, x @ x.T * frequency, rtol=1e-10)
    error = np.abs(x @ x.T) * np.sqrt(frequency * (1 - frequency) / 20_000)
    assert (np.abs(result - relu_gram(x)) <= 5 * error).all()


def test_frozen_parameters_do_not_count(unit_rows: Rows) -> None:
    x = unit_rows(4, 3)
    module = nn.Linear(3, 1)
    module.bias.requires_grad_(False)
    np.testing.assert_allclose(empirical_gram(module, x), x @ x.T, rtol=1e-14)


def test_whole_numbers_reach_an_embedding() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Embedding(5, 2), nn.Flatten(), nn.Linear(6, 1, bias=False))
    result = empirical_gram(module, torch.tensor([[0, 1, 2], [2, 3, 4]]))
    assert result.shape == (2, 2)
    assert (result == result.T).all()


def test_module_is_not_changed() -> None:
    module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Linear(2, 1)).eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    empirical_gram(module, torch.randn(4, 3))
    for name, value in module.state_dict().items():
        assert value.dtype == before[name].dtype
        assert torch.equal(value, before[name])
    assert all(parameter.grad is None for parameter in module.parameters())


def test_modules_without_trainable_parameters_are_refused() -> None:
    with pytest.raises(InputError, match="to have trainable parameters, got none"):
        empirical_gram(nn.Linear(3, 1).requires_grad_(False), torch.ones(2, 3))


def test_blocks_of_nothing_are_refused() -> None:
    with pytest.raises(InputError, match="Expected `block` to be at least 1, got 0"):
        empirical_gram(nn.Linear(3, 1), torch.ones(2, 3), block=0)
