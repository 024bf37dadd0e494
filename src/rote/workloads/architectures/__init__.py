"""Image classifiers by name, one file per family, or a user's own.

A family's factories take ``num_classes``, ``in_channels``, ``scale``, which multiplies every width,
and, where they name them, ``image_size`` and options of their own.
"""

from rote.workloads.architectures.registry import ARCHITECTURES, build_architecture

__all__ = ["ARCHITECTURES", "build_architecture"]
