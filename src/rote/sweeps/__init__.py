"""Starting several runs: one process per core, one thread each."""

from rote.sweeps.demo import Comparison, compare_rules, demo_specs
from rote.sweeps.local import Outcome, run_all, run_name

__all__ = ["Comparison", "Outcome", "compare_rules", "demo_specs", "run_all", "run_name"]
