"""How many threads a run computes with: one. Loads nothing, as it must be set before torch is."""

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""The environment of a worker."""
