"""Two ranks train one network on noisy digits with DDP; ζ is a mean over ranks, written once.

torchrun --standalone --nproc-per-node 2 examples/ddp_digits.py [RUN_DIRECTORY]
"""

import sys

import torch
from sklearn.datasets import load_digits
from torch import Tensor, distributed, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import rote

EPOCHS, HOLDOUT, NOISE = 30, 256, 0.5


def noisy_digits() -> tuple[Tensor, Tensor]:
    """Digits, and labels of which half were resampled uniformly; the same on every rank."""
    x, y = map(torch.tensor, load_digits(return_X_y=True))
    generator = torch.Generator().manual_seed(0)
    resampled = torch.rand(len(y), generator=generator) < NOISE
    return x.float() / 16, torch.where(
        resampled, torch.randint(10, y.shape, generator=generator), y
    )


def main() -> None:
    """Train, probe on every rank after every epoch, print on the first."""
    distributed.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    x, y = noisy_digits()
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    save_to = sys.argv[1] if len(sys.argv) > 1 else None
    tracker = rote.track(model, optimizer, inputs=x[:HOLDOUT], num_classes=10, save_to=save_to)

    data = TensorDataset(x[HOLDOUT:], y[HOLDOUT:])
    sampler = DistributedSampler(data)  # type: DistributedSampler[tuple[Tensor, ...]]
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for inputs, labels in DataLoader(data, batch_size=32, sampler=sampler):
            optimizer.zero_grad()
            cross_entropy(model(inputs), labels).backward()
            optimizer.step()
        reading = tracker.probe(train_accuracy=tracker.accuracy(x[HOLDOUT:], y[HOLDOUT:]))
        if reading is not None and epoch % 5 == 4 and distributed.get_rank() == 0:
            zeta, accuracy = reading.susceptibility, reading.train_accuracy
            print(f"epoch {epoch + 1:3}   ζ {zeta:.4f}   train accuracy {accuracy:.1%}")
    distributed.barrier()  # without it, a process of torch 2.13 with gloo may abort as it ends
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
