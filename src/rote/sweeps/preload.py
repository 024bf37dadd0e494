"""Everything a worker needs, loaded once in the process that workers are forked off."""

import os

from rote.sweeps.worker import ONE_THREAD

# Before torch and numpy are loaded: they start threads for more, and a fork loses threads.
os.environ.update(ONE_THREAD)
import sklearn.datasets  # noqa: F401

from rote.workloads import train  # noqa: F401
