"""A first spec for a user's data, for those who have not written one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from rote.workloads.data import load, make_data_section, read_data
from rote.workloads.spec import FolderData, RunSpec

_FOR_ALL: dict[str, Any] = {"signals": ["aum", "confident_learning"]}
"""The signals that `rote suspects` uses; they cost next to nothing."""

_FOR_ROWS: dict[str, Any] = {
    **_FOR_ALL,
    "batch": 64,
    "architecture": {"name": "mlp", "options": {"width": 128, "depth": 1, "dropout": 0.2}},
    "optimizer": {"name": "adam", "lr": 2e-3},
    "schedule": {"name": "none"},
}
"""Images of sets that are known by name are trained on as specs do by default."""

_FOR_PICTURES: dict[str, Any] = {
    **_FOR_ALL,
    "batch": 64,
    "architecture": {"name": "cnn", "options": {"width": 16}},
    "optimizer": {"name": "adam", "lr": 1e-3},
    "schedule": {"name": "none"},
}
"""A laptop sees 1,000 of them in a few seconds; the paper's network would take a minute."""


def suggest_spec(
    data: Any,  # noqa: ANN401  # recognized by its type
    *,
    label: str | None = None,
    truth: str | None = None,
    data_dir: Path | str | None = None,
) -> RunSpec:
    """Return a spec that fits some data.

    Args:
        data: a set by name, the path of a table, an ``.npz`` or a folder, or anything else that
            ``read_data`` takes, which you then also pass to ``train``: no file can name it.
        label: the labels to train on: a column of a table, or ``y_train_<label>`` of an ``.npz``.
        truth: the column of true labels.
        data_dir: the folder of local data; ``ROTE_DATA`` by default.

    Returns:
        A spec for ``train``.

    Raises:
        InputError: if the data are missing, or cannot be understood.

    Example:
        >>> columns = {"size": [1.0, 2.0, 3.0, 4.0], "label": ["cat", "cow"] * 2}
        >>> suggest_spec(columns).architecture.name
        'mlp'
    """
    if isinstance(data, str | Path):
        section = make_data_section(data, label=label, truth=truth)
        found = load(section, data_dir)
        spec = RunSpec(name=Path(data).stem, data=section)
    else:
        found, spec = read_data(data, label=label or "label", truth=truth), RunSpec()
    setting = _FOR_ALL if found.inputs == "images" else _FOR_ROWS
    if found.inputs == "images" and isinstance(spec.data, FolderData):
        setting = _FOR_PICTURES
    return replace(RunSpec.from_dict(setting), name=spec.name, data=spec.data)
