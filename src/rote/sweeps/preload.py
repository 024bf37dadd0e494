"""Load everything a worker needs, once for all forked workers."""

import gc
import os

from rote.sweeps.worker import ONE_THREAD

# Before torch and numpy are loaded: they start threads for more, and a fork loses threads.
os.environ.update(ONE_THREAD)
gc.disable()  # collecting garbage would take a quarter of the time, and there is none
# The first step of an optimizer would load it, for a second or two.
import torch._dynamo  # noqa: E402, F401

from rote.workloads import train  # noqa: E402, F401

gc.freeze()  # a collection in a fork would copy every page that it visits
gc.enable()
