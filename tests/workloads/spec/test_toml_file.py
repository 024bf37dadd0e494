import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rote.errors import InputError
from rote.workloads.spec import FieldError, located
from rote.workloads.spec.toml_file import line_of, write_toml

SCALARS = (
    st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
VALUES = st.recursive(
    SCALARS | st.lists(SCALARS, max_size=3),
    lambda inner: st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_what_is_written_can_be_read(values: dict[str, Any]) -> None:
    assert tomllib.loads(write_toml(values)) == values


TEXT = '''# a comment
epochs = 3
note = """
optimizer.lr = 1
"""
sizes = [
  1,
  2,
]

[optimizer]
name = "sgd"
lr = 0.1
[architecture.options]
width = 3
data.name = "x"
'''


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("epochs", 2),
        ("note", 3),
        ("sizes", 6),
        ("optimizer", 11),
        ("optimizer.lr", 13),
        ("optimizer.momentum", 11),
        ("architecture.name", 14),
        ("architecture.options.width", 15),
        ("architecture.options.data.name", 16),
        ("batch", None),
    ],
)
def test_fields_are_found(field: str, line: int | None) -> None:
    assert line_of(TEXT, field) == line


def test_an_error_of_a_field_is_located(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(TEXT)
    with (
        pytest.raises(InputError, match=r"run\.toml, line 13: Expected `optimizer.lr` to be less"),
        located(file),
    ):
        raise FieldError("optimizer.lr", "to be less, got more.")
    with (
        pytest.raises(InputError, match=r"run\.toml: Expected `batch` to be less, got more\."),
        located(file),
    ):
        raise FieldError("batch", "to be less, got more.")
