"""Data sets by name, from files or handed over, their labels with noise, and batches of them."""

from rote.workloads.data.dataset import Dataset
from rote.workloads.data.given_data import data_at, given_section, read_data
from rote.workloads.data.listing import CheckedFile, ListedSet, check_file, list_datasets
from rote.workloads.data.lookup import load, load_arrays

__all__ = [
    "CheckedFile",
    "Dataset",
    "ListedSet",
    "check_file",
    "data_at",
    "given_section",
    "list_datasets",
    "load",
    "load_arrays",
    "read_data",
]
