"""Everything a worker needs, loaded once in the process that workers are forked off."""

import os
from importlib import import_module

from rote.sweeps.worker import ONE_THREAD

# Before torch and numpy are loaded: they start threads for more, and a fork loses threads.
os.environ.update(ONE_THREAD)
for _module in ("sklearn.datasets", "rote.workloads.loop"):
    import_module(_module)
