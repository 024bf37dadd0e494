"""A run to begin with on somebody's data, for those who have not written a spec."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from rote.workloads.data import data_at, load, read_data
from rote.workloads.spec import RunSpec

_FOR_ALL: dict[str, Any] = {"signals": ["aum", "confident_learning"]}
"""What `rote suspects` goes by; it costs next to nothing."""

_FOR_ROWS: dict[str, Any] = {
    **_FOR_ALL,
    "batch": 64,
    "architecture": {"name": "mlp", "options": {"width": 128, "depth": 1, "dropout": 0.2}},
    "optimizer": {"name": "adam", "lr": 2e-3},
    "schedule": {"name": "none"},
}
"""Images are trained on as specs do by default."""


def first_spec(
    data: Any,  # noqa: ANN401  # told by what it is
    *,
    label: str | None = None,
    truth: str | None = None,
    data_dir: Path | str | None = None,
) -> RunSpec:
    """A spec that fits some data.

    Args:
        data: a set by name, the path of a table, an ``.npz`` or a folder, or anything else that
            ``read_data`` takes, which ``train`` must then be given, too: no file can name it.
        label: which labels to train on: a column of a table, or ``y_train_<label>`` of an ``.npz``.
        truth: the column of right labels.
        data_dir: the folder of local data; ``ROTE_DATA`` by default.

    Raises:
        InputError: if the data are missing, or cannot be understood.

    Example:
        >>> columns = {"size": [1.0, 2.0, 3.0, 4.0], "label": ["cat", "cow"] * 2}
        >>> first_spec(columns).architecture.name
        'mlp'
    """
    if isinstance(data, str | Path):
        section = data_at(data, label=label, truth=truth)
        found = load(section, data_dir)
        spec = RunSpec(name=Path(data).stem, data=section)
    else:
        found, spec = read_data(data, label=label or "label", truth=truth), RunSpec()
    fitting = RunSpec.from_dict(_FOR_ALL if found.inputs == "images" else _FOR_ROWS)
    return replace(fitting, name=spec.name, data=spec.data)
