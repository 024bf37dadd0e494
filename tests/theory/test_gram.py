from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.stats import ortho_group
from torch import nn

from rote.errors import InputError
from rote.theory import empirical_gram, gram, relu_gram, relu_kernel
from rote.theory.gram import multiply_relu_gram

FloatArray = npt.NDArray[np.float64]
Rows = Callable[..., FloatArray]


def naive_gram(x: FloatArray) -> FloatArray:
    """Eq. 3 entry by entry, with an angle that is exact for near and far samples alike."""
    n = len(x)
    result = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            u, v = x[i] / np.linalg.norm(x[i]), x[j] / np.linalg.norm(x[j])
            angle = 2 * np.arctan2(np.linalg.norm(u - v), np.linalg.norm(u + v))
            result[i, j] = x[i] @ x[j] * (np.pi - angle) / (2 * np.pi)
    return result


def test_angles_with_known_values() -> None:
    x = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.5, np.sqrt(3) / 2]]
    h = relu_gram(x)
    assert h[0, 1] == pytest.approx(0.0, abs=1e-16)  # 90 degrees
    assert h[0, 2] == pytest.approx(0.0, abs=1e-16)  # 180 degrees
    assert h[0, 3] == pytest.approx(1 / 6)  # 60 degrees: ½ (π - π/3) / (2π)
    assert np.diag(h).tolist() == pytest.approx([0.5] * 4)


def test_expectation_over_w_within_its_error_bar(unit_rows: Rows) -> None:
    x = 2.0 * unit_rows(6, 4)
    draws = 200_000
    is_active = (np.random.default_rng(1).standard_normal((draws, 4)) @ x.T >= 0).astype(float)
    frequency = is_active.T @ is_active / draws
    error = np.abs(x @ x.T) * np.sqrt(frequency * (1 - frequency) / draws)
    assert (np.abs(x @ x.T * frequency - relu_gram(x)) <= 5 * error).all()


@pytest.mark.parametrize("block", [1, 3, 1024])
def test_blocks_give_the_matrix_of_single_entries(
    unit_rows: Rows, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr("rote.theory.gram.BLOCK", block)
    x = unit_rows(8, 3) * np.linspace(0.1, 5, 8)[:, None]
    np.testing.assert_allclose(relu_gram(x), naive_gram(x), atol=1e-14)


def test_trace_is_half_and_all_eigenvalues_are_positive(unit_rows: Rows) -> None:
    h = relu_gram(unit_rows(40, 5))
    assert np.trace(h) == pytest.approx(20, rel=1e-14)
    assert np.linalg.eigvalsh(h)[0] > 0
    assert (h == h.T).all()


def test_parallel_samples_survive_cosines_above_one() -> None:
    direction = np.random.default_rng(0).standard_normal(50)
    x = direction * np.linspace(0.1, 7, 300)[:, None]
    units = x / np.linalg.norm(x, axis=1, keepdims=True)
    assert (units @ units.T).max() > 1  # the trap is set
    # arccos is exact to 1e-8 where its argument is rounded near 1.
    np.testing.assert_allclose(relu_gram(x, normalize=True), 0.5, atol=1e-8)


def test_normalizing_removes_the_norms(unit_rows: Rows) -> None:
    x = unit_rows(7, 4)
    scaled = x * np.geomspace(1e-200, 1e150, 7)[:, None]
    np.testing.assert_allclose(relu_gram(scaled, normalize=True), relu_gram(x), atol=1e-14)


def test_norms_multiply_entries(unit_rows: Rows) -> None:
    x, norms = unit_rows(5, 4), np.array([1.0, 2.0, 3.0, 0.5, 10.0])
    expected = relu_gram(x) * np.outer(norms, norms)
    np.testing.assert_allclose(relu_gram(x * norms[:, None]), expected, rtol=1e-12)


def test_images_and_tensors_are_accepted(unit_rows: Rows) -> None:
    x = unit_rows(4, 6).astype(np.float32)
    images = torch.from_numpy(x).reshape(4, 1, 2, 3)
    np.testing.assert_array_equal(relu_gram(images), relu_gram(x))
    assert relu_gram(images).dtype == np.float64


@settings(max_examples=30, deadline=None)
@given(n=st.integers(2, 12), d=st.integers(2, 6), seed=st.integers(0, 2**32 - 1))
def test_rotating_the_inputs_changes_nothing(n: int, d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    rotation = ortho_group.rvs(d, random_state=rng)
    np.testing.assert_allclose(relu_gram(x @ rotation), relu_gram(x), atol=1e-7)


@settings(max_examples=30, deadline=None)
@given(n=st.integers(2, 12), seed=st.integers(0, 2**32 - 1))
def test_permuting_the_samples_permutes_the_matrix(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, order = rng.standard_normal((n, 4)), rng.permutation(n)
    np.testing.assert_allclose(relu_gram(x[order]), relu_gram(x)[np.ix_(order, order)], atol=1e-12)


def test_zero_samples_are_refused_by_index() -> None:
    with pytest.raises(InputError, match="no zero sample, got 2, the first at index 1"):
        relu_gram([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])


def test_kernel_is_a_rectangle_of_the_matrix(
    unit_rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rote.theory.gram.BLOCK", 3)
    x = 3 * unit_rows(8, 4)
    np.testing.assert_allclose(relu_kernel(x[:5], x[5:]), relu_gram(x)[:5, 5:], atol=1e-14)
    expected = relu_gram(x, normalize=True)[:5, 5:]
    np.testing.assert_allclose(relu_kernel(x[:5], x[5:], normalize=True), expected, atol=1e-14)


def test_kernel_refuses_samples_of_two_kinds(unit_rows: Rows) -> None:
    with pytest.raises(InputError, match="Expected `z` to be samples of 4 values"):
        relu_kernel(unit_rows(3, 4), unit_rows(3, 5))


@pytest.mark.parametrize("normalize", [False, True])
def test_product_is_that_of_the_matrix(
    unit_rows: Rows, monkeypatch: pytest.MonkeyPatch, normalize: bool
) -> None:
    monkeypatch.setattr("rote.theory.gram.BLOCK", 3)
    x, matrix = 2 * unit_rows(8, 4), np.random.default_rng(1).standard_normal((8, 2))
    expected = relu_gram(x, normalize=normalize) @ matrix
    result = multiply_relu_gram(x, matrix, normalize=normalize)
    np.testing.assert_allclose(result, expected, atol=1e-14)


def test_blocks_stay_small() -> None:
    assert gram.BLOCK**2 * 8 <= 2**23


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
    with pytest.raises(InputError, match="no trainable parameters"):
        empirical_gram(nn.Linear(3, 1).requires_grad_(False), torch.ones(2, 3))


def test_empty_blocks_are_refused() -> None:
    with pytest.raises(InputError, match="Expected `block` to be an integer of at least 1, got 0"):
        empirical_gram(nn.Linear(3, 1), torch.ones(2, 3), block=0)
