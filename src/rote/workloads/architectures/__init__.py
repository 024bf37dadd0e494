"""Image classifiers by name, one file per family; ``build`` makes one, or a user's own."""

from rote.workloads.architectures.registry import ARCHITECTURES, build

__all__ = ["ARCHITECTURES", "build"]
