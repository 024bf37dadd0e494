"""The pairs of wrapper and optimizer that are not in turn elsewhere; ``make test-all`` has them."""

from tests.ranks import ddp_cases, fsdp_cases

CASES = {
    f"{kind}-{name}": case
    for kind, module in (("ddp", ddp_cases), ("fsdp", fsdp_cases))
    for name, case in module.PAIRS.items()
    if name not in module.CASES
}
