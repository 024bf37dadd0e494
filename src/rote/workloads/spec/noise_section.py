"""Which labels are made wrong (``rote.labels.noise`` has the definitions)."""

from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from rote.workloads.spec.constraints import Above, Between
from rote.workloads.spec.options import Options
from rote.workloads.spec.section import Section


@dataclass(frozen=True, kw_only=True)
class NoNoise(Section):
    """Labels as they come."""

    tag: ClassVar[str | None] = "model"

    model: Literal["none"] = "none"


@dataclass(frozen=True, kw_only=True)
class AnyNoise(Section):
    """What all noise has in common.

    Attributes:
        rate: how much, as the model defines it.
    """

    tag: ClassVar[str | None] = "model"

    rate: Annotated[float, Between(0, 1)]

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of this model alone that are given, as ``add_noise`` takes them."""
        given = {}
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.name not in ("model", "rate") and value is not None:
                given[entry.name] = value
        return given


@dataclass(frozen=True, kw_only=True)
class PlainNoise(AnyNoise):
    """Noise that needs a rate only; ``symmetric-inclusive`` is the paper's.

    Attributes:
        model: which.
    """

    model: Literal["symmetric-inclusive", "symmetric-exclusive", "pair", "trid"]


@dataclass(frozen=True, kw_only=True)
class AsymmetricNoise(AnyNoise):
    """Some classes are mistaken for one other class each.

    Attributes:
        model: ``asymmetric``.
        class_map: the name of a published map, or a table of classes; the map published for the
            data set by default.
        sampling: how the labels to change are chosen; as published with the map by default.
        blocks: which classes of CIFAR-100 are mistaken for each other.
    """

    model: Literal["asymmetric"] = "asymmetric"
    class_map: str | Options | None = None
    sampling: Literal["independent", "per-class", "overall"] | None = None
    blocks: Literal["consecutive", "superclass"] | None = None


@dataclass(frozen=True, kw_only=True)
class InstanceNoise(AnyNoise):
    """What a label becomes depends on its input.

    Attributes:
        model: ``instance``.
        input_scale: multiplies the stored inputs; 1/255 for bytes and 1 for others by default.
    """

    model: Literal["instance"] = "instance"
    input_scale: Annotated[float, Above(0)] | None = None


Noise: TypeAlias = NoNoise | PlainNoise | AsymmetricNoise | InstanceNoise
