"""Label noise: clean labels in, noisy labels with mask and realized rate out. NumPy only."""

from rote.labels.noise.add import NOISE_MODELS, add_noise
from rote.labels.noise.asymmetric import CLASS_MAPS, ClassMap
from rote.labels.noise.noisy_labels import NoisyLabels

__all__ = ["CLASS_MAPS", "NOISE_MODELS", "ClassMap", "NoisyLabels", "add_noise"]
