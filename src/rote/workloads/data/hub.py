"""Sets from the Hugging Face hub, converted once into the local layout."""

from pathlib import Path
from typing import Any

import numpy as np

from rote.errors import InputError
from rote.extras import require
from rote.store import whole_file
from rote.workloads.data.arrays import cache_folder
from rote.workloads.data.catalog import NamedSet
from rote.workloads.data.dataset import Array, Labels


def fetch(named: NamedSet) -> Path:
    """Download a set, unless it was downloaded before, as an ``.npz`` in the cache.

    Raises:
        InputError: if it is not on the hub, or cannot be downloaded.
        MissingExtraError: if the package ``datasets`` is not installed.
    """
    target = cache_folder() / f"{named.name}.npz"
    if target.exists():
        return target
    if named.hub is None:
        raise InputError(
            f"Expected {named.name} to be on the Hugging Face hub, got no address. "
            f"Get it by hand: {named.obtain}."
        )
    datasets = require("datasets", extra="datasets")
    try:
        splits = datasets.load_dataset(named.hub.repository, named.hub.configuration)
    except (OSError, ValueError) as error:  # no network, no such repository
        raise InputError(
            f"Expected {named.hub.repository} to be downloadable, got: {error}. "
            f"Get it by hand: {named.obtain}."
        ) from error
    _save(target, named, splits)
    return target


def convert_split(split: Any, named: NamedSet) -> tuple[Array, Labels]:  # noqa: ANN401
    """The images and labels of one split."""
    assert named.hub is not None
    mode = "L" if named.shape[2] == 1 else "RGB"
    images = np.empty((len(split), *named.shape), dtype=np.uint8)
    for place, image in enumerate(split[named.hub.image]):
        images[place] = np.asarray(image.convert(mode)).reshape(named.shape)
    return images, np.asarray(split[named.hub.label], dtype=np.int64)


def _save(target: Path, named: NamedSet, splits: Any) -> None:  # noqa: ANN401
    assert named.hub is not None
    x_train, y_train = convert_split(splits["train"], named)
    x_test, y_test = convert_split(splits[named.hub.test], named)
    target.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(target, shared=True) as draft, draft.open("wb") as file:
        np.savez(file, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
