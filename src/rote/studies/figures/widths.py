"""ζ and memorization across the widths of networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rote.studies.settings import make_setting_study

if TYPE_CHECKING:
    from rote.workloads import RunSpec


_SCALED = ("mobilenet", "shufflenet_v2")


def read_width(spec: RunSpec) -> str | None:
    """Return the units of a perceptron's layer, or the scale of the paper's two networks."""
    name, options = spec.architecture.name, dict(spec.architecture.options)
    if name in _SCALED:
        return f"{name} × {spec.architecture.scale:g}"
    is_plain = not options.get("dropout") and not options.get("batch_norm")
    return str(options["width"]) if name == "mlp" and is_plain else None


STUDY = make_setting_study(
    read_width,
    "widths",
    "ζ tracks memorization across widths",
    paper=("fig:fine",),
    cause="Every width has three recipes, each with its own line (tracking), and on CIFAR some "
    "perceptrons diverge at a learning rate of 0.1. Rank correlations, which diverged runs hardly "
    "affect, agree: recipes matter more than widths. The paper’s networks have one recipe.",
    cause_at_medium=(
        "The narrowest MobileNet memorizes almost nothing, so there is nothing to track within "
        "it. Wider networks memorize more, with a higher ζ. ζ of the reference step follows "
        "memorization at every width."
    ),
)
