import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rote.errors import InputError
from rote.workloads.spec import FieldError, locate_errors
from rote.workloads.spec.toml_file import find_line, write_toml

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
def test_written_specs_can_be_read(values: dict[str, Any]) -> None:
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
    assert find_line(TEXT, field) == line


def test_an_error_of_a_field_is_located(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(TEXT)
    with (
        pytest.raises(InputError, match=r"run\.toml, line 13: Expected `optimizer.lr` to be less"),
        locate_errors(file),
    ):
        raise FieldError("optimizer.lr", "to be less, got more.")
    with (
        pytest.raises(InputError, match=r"run\.toml: Expected `batch` to be less, got more\."),
        locate_errors(file),
    ):
        raise FieldError("batch", "to be less, got more.")


def test_the_line_of_a_mistake_in_a_long_file_is_found_in_linear_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = 0
    usual = tomllib.loads

    def counted(text: str) -> dict[str, Any]:
        nonlocal read
        read += len(text)
        return usual(text)

    monkeypatch.setattr(tomllib, "loads", counted)
    text = "".join(f"field{i} = [\n  {i},\n]\n" for i in range(1000)) + "[optimizer]\nlr = -1\n"
    assert find_line(text, "optimizer.lr") == 3002
    assert find_line(text, "field999") == 2998
    assert read <= 2 * len(text)


@pytest.mark.parametrize(
    ("text", "field", "line"),
    [
        ("a = '''\n[b]\n'''\n[b]\nc = 1", "b.c", 5),
        ('a = "[" # ]\nb = 1', "b", 2),
        ("a = 'x\\'\nb = 1", "b", 2),
        ("[[a]]\nb = 1\n[[a]]\nc = 2", "a.c", 4),
        ('["a b".c]\nd = { e = 1 }', "a b.c.d.e", 2),
        ("a = [ # [\n1, # ]\n]\nb = 2", "b", 4),
        ('a = """x\\"""""\nb = 2', "b", 2),
        ("a.b = 1\na.c = 2", "a.c", 2),
        ("a = 1", "a.b", 1),
        ("broken = = [\nb = 1", "b", None),
    ],
)
def test_statements_end_where_toml_ends_them(text: str, field: str, line: int | None) -> None:
    assert find_line(text, field) == line
