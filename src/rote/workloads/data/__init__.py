"""Data sets by name or from files, their labels with noise, and batches of them."""

from rote.workloads.data.dataset import Dataset
from rote.workloads.data.listing import CheckedFile, ListedSet, check_file, list_datasets
from rote.workloads.data.lookup import load, load_arrays

__all__ = [
    "CheckedFile",
    "Dataset",
    "ListedSet",
    "check_file",
    "list_datasets",
    "load",
    "load_arrays",
]
