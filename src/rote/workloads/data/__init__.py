"""Data sets by name, from files or from Python: their labels, noise, splits and batches."""

from rote.workloads.data.dataset import Dataset
from rote.workloads.data.given_data import make_data_section, make_given_section, read_data
from rote.workloads.data.listing import CheckedFile, ListedSet, check_file, list_datasets
from rote.workloads.data.lookup import find_data_folder, load, load_arrays

__all__ = [
    "CheckedFile",
    "Dataset",
    "ListedSet",
    "check_file",
    "find_data_folder",
    "list_datasets",
    "load",
    "load_arrays",
    "make_data_section",
    "make_given_section",
    "read_data",
]
