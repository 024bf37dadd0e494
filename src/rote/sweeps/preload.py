"""Everything a worker needs, loaded once in the process that workers are forked off."""

import os

from rote.sweeps.worker import ONE_THREAD

# Before torch and numpy are loaded: they start threads for more, and a fork loses threads.
os.environ.update(ONE_THREAD)
import torch._dynamo  # noqa: F401  # the first step of an optimizer loads it, for a second or two

from rote.workloads import train  # noqa: F401
