"""Everything a worker needs, loaded once in the process that workers are forked off."""

import os
from importlib import import_module

# Before torch and numpy are loaded: they start threads for more, and a fork loses threads.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"
for _module in ("sklearn.datasets", "rote.workloads.loop"):
    import_module(_module)
