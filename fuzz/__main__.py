"""Attack rote for a while: ``python -m fuzz [--seconds N] [--seed N] [KIND ...]``.

Every module of this folder is a kind of attack. It has ``attack(seed, seconds)``, which returns how
many trials it made, and what it found, as sentences.
"""

import argparse
import sys
import time
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

KINDS = sorted(
    entry.name for entry in iter_modules([str(Path(__file__).parent)]) if entry.name[0] != "_"
)


def main() -> int:
    """Run the attacks; 1 if any of them found something."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}; all")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each kind")
    parser.add_argument("--seed", type=int, default=None, help="the time of day by default")
    options = parser.parse_args()
    seed = int(time.time()) if options.seed is None else options.seed
    total = 0
    for kind in options.kinds or KINDS:
        trials, findings = import_module(f"fuzz.{kind}").attack(seed, options.seconds)
        total += len(findings)
        print(f"{kind}: {trials} trials, {len(findings)} findings (seed {seed})")
        for finding in findings:
            print(f"  {finding}")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
