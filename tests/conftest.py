"""Settings for every test: one thread, and Ctrl-C as in a terminal."""

import signal

import pytest
import torch

# A shell that starts the tests in the background has them, and what they start, ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)
