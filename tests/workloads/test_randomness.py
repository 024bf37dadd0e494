import torch

from rote.workloads.randomness import derive_seed, make_numpy_generator, make_torch_generator


def test_seeds_are_the_same_on_every_machine() -> None:
    assert derive_seed(0, "weights") == 133441691874178746


def test_seeds_differ_by_root_name_and_number() -> None:
    asked = [(0, "order", 1), (0, "order", 2), (1, "order", 1), (0, "order"), (0, "noise", 1)]
    assert len({derive_seed(*names) for names in asked}) == len(asked)  # type: ignore[arg-type]
    assert all(0 <= derive_seed(*names) < 2**63 for names in asked)  # type: ignore[arg-type]


def test_generators_leave_the_global_ones_alone() -> None:
    before = torch.get_rng_state()
    first = torch.rand(3, generator=make_torch_generator(5, "a"))
    assert torch.equal(first, torch.rand(3, generator=make_torch_generator(5, "a")))
    assert make_numpy_generator(5, "a").random() == make_numpy_generator(5, "a").random()
    assert torch.equal(torch.get_rng_state(), before)
