"""Nested tables, entry by entry."""

from rote.store.nested_tables import flatten_tables


def test_entries_have_dotted_names_and_keep_their_order() -> None:
    tables = {"b": {"y": {"deep": [1]}, "x": None}, "a": 2}
    assert list(flatten_tables(tables)) == [("b.y.deep", [1]), ("b.x", None), ("a", 2)]


def test_an_empty_table_is_an_entry() -> None:
    assert list(flatten_tables({"a": {"options": {}}, "b": {}})) == [("a.options", {}), ("b", {})]


def test_a_table_with_a_stop_word_is_one_entry() -> None:
    tables = {"lr": {"log": [1, 2]}, "inner": {"lr": {"log": [3, 4]}, "seed": 0}}
    assert dict(flatten_tables(tables, stop=("log",))) == {
        "lr": {"log": [1, 2]},
        "inner.lr": {"log": [3, 4]},
        "inner.seed": 0,
    }
