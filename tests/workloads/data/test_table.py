"""Tables of every make: what becomes of their columns, held against sums by hand."""

import csv
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from rote.errors import InputError
from rote.workloads.data import check_file, load, read_data
from rote.workloads.data.dataset import Dataset
from rote.workloads.data.npz_file import count_words
from rote.workloads.spec import FieldError, TableData

TEXTS = ["cheap pills now", "see you at home", "pills for you", "home at last"] * 6
SIZES = [None, *np.linspace(-3, 8, 23).round(3)]
CITIES = ["Oslo", "Rome", None] * 8
LABELS = ["spam", "ham"] * 12
PARTS = ["train"] * 16 + ["test"] * 6 + ["valid"] * 2
FRAME = pl.DataFrame(
    {"n": range(7, 31), "size": SIZES, "city": CITIES, "label": LABELS, "split": PARTS}
)


def same(one: Dataset, other: Dataset) -> bool:
    pairs = [(getattr(one, n), getattr(other, n)) for n in ("x_train", "y_train", "x_test")]
    return all(np.array_equal(a, b) for a, b in pairs) and one.class_names == other.class_names


def write(path: Path, text: str | bytes) -> str:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_numbers_and_categories_equal_hand_computed_features() -> None:
    found = read_data(FRAME)
    mean = np.mean([size for size in SIZES[:16] if size is not None])
    rows = [
        [mean if size is None else size, city == "Oslo", city == "Rome"]
        for size, city in zip(SIZES, CITIES, strict=True)
    ]
    expected = np.array(rows, dtype=np.float32)
    np.testing.assert_array_equal(found.x_train, expected[:16])
    np.testing.assert_array_equal(found.x_test, expected[16:22])
    np.testing.assert_array_equal(found.y_train, [1, 0] * 8)
    assert found.class_names == ("ham", "spam")
    assert (found.inputs, found.num_classes, found.truth) == ("features", 2, None)


def test_csv_parquet_and_frames_give_the_same_data(tmp_path: Path) -> None:
    frame = FRAME.with_columns(text=pl.Series(TEXTS))
    expected = read_data(frame)
    frame.write_csv(tmp_path / "a.csv")
    frame.write_csv(tmp_path / "a.tsv", separator="\t")
    frame.write_parquet(tmp_path / "a.parquet")
    makes: list[Any] = [frame.lazy(), frame.to_dict(as_series=False)]
    if find_spec("pandas") is not None:
        makes += [frame.to_pandas(), frame.to_arrow()]
    for made in (*makes, *(tmp_path / f"a.{end}" for end in ("csv", "tsv", "parquet"))):
        assert same(read_data(made), expected), type(made)
    assert load(TableData(path=str(tmp_path / "a.csv"))).name == "a.csv"


def test_texts_are_counted_as_those_of_arrays_are() -> None:
    found = read_data({"text": TEXTS, "label": LABELS, "split": PARTS}, vocabulary=5)
    train, test = count_words(np.array(TEXTS[:16]), np.array(TEXTS[16:22]), 5)
    assert found.inputs == "bag-of-words"
    np.testing.assert_array_equal(found.x_train, train)
    np.testing.assert_array_equal(found.x_test, test)


def test_numbers_beside_words_are_normalized_by_the_training_rows() -> None:
    sizes = np.linspace(-1, 4, 24)
    found = read_data({"text": TEXTS, "label": LABELS, "split": PARTS, "size": sizes})
    mean, deviation = sizes[:16].mean(), sizes[:16].std()
    np.testing.assert_allclose(found.x_train[:, -1], (sizes[:16] - mean) / deviation, rtol=1e-6)
    assert found.x_test is not None
    np.testing.assert_allclose(found.x_test[:, -1], (sizes[16:22] - mean) / deviation, rtol=1e-6)


def test_role_of_each_column_is_reported(tmp_path: Path) -> None:
    frame = FRAME.with_columns(
        text=pl.Series(TEXTS),
        code=pl.Series([f"x{n}" for n in range(24)]),
        day=pl.date_range(pl.date(2026, 1, 1), pl.date(2026, 1, 24), eager=True),
        label_worse=pl.lit("ham"),
        empty=pl.lit(None, dtype=pl.String),
    )
    frame.write_parquet(tmp_path / "a.parquet")
    found = check_file(tmp_path / "a.parquet")
    assert found.contents == {
        "n": "left out: it numbers the rows",
        "size": "numbers, 1 missing: the training mean stands in",
        "city": "2 categories: Oslo, Rome",
        "label": "the label: 2 classes",
        "split": "the split: 16 train, 6 test, 2 others left out",
        "text": "text, as word counts",
        "code": "left out: 16 different names or codes, too many for categories",
        "day": "left out: dates",
        "label_worse": "left out: another column of labels",
        "empty": "left out: no training row has a value",
    }
    assert found.command == f"rote train --data {tmp_path / 'a.parquet'}"
    assert found.summary["train"] == 16


@pytest.mark.parametrize(
    ("texts", "numbers", "said"),
    [
        (["5%", "12.5 %", None, "0%"], [5, 12.5, 17.5 / 3, 0], "'5%' is read as 5"),
        (["0,5", "1,25", "3", "-2,0"], [0.5, 1.25, 3, -2], "'0,5' is read as 0.5"),
        (["1.234,5", "7", "0,5", "1"], [1234.5, 7, 0.5, 1], "'1.234,5' is read as 1234.5"),
        (["$1,200.50", "950", "1,000", "€3"], [1200.5, 950, 1000, 3], "is read as 1200.5"),
        (["950", "951.5", "952", "1,200"], [950, 951.5, 952, 1200], "'1,200' is read as 1200"),
        (["10.200.100", "10.200.101", "10.200.102", "10.200.103"], None, "left out"),
        (["2026-01-31", "2026-02-01", None, "2026-02-28"], None, "left out: dates"),
        (["31.1.2026", "1.2.26", "1/2/2026", "1.3.2026"], None, "left out: dates"),
        (["2026-01-31T10:00", "2026-01-31 10:00:01", None, None], None, "left out: dates"),
    ],
)
def test_numbers_are_read_as_people_write_them(
    tmp_path: Path, texts: list[str | None], numbers: list[float] | None, said: str
) -> None:
    frame = pl.DataFrame({"size": [0.5, 1.5, 2.5, 4.0], "found": texts, "label": ["a", "b"] * 2})
    frame.write_csv(tmp_path / "a.csv", separator=";")
    assert said in check_file(tmp_path / "a.csv").contents["found"]
    x_train = read_data(tmp_path / "a.csv").x_train
    assert x_train.shape[1] == (1 if numbers is None else 2)
    if numbers is not None:
        np.testing.assert_allclose(x_train[:, 1], numbers, rtol=1e-6)


@pytest.mark.parametrize(
    ("labels", "names", "numbers"),
    [
        ([10, 9, 10, 9], ("9", "10"), [1, 0, 1, 0]),
        (["10", "9", "10", "9"], ("9", "10"), [1, 0, 1, 0]),
        ([-1, 1, 1, -1], ("-1", "1"), [0, 1, 1, 0]),
        ([1.0, 2.0, None, 2.0], ("1", "2"), [0, 1, 1]),
        ([True, False, False, True], ("false", "true"), [1, 0, 0, 1]),
        (["b", None, "a", "b"], ("a", "b"), [1, 0, 1]),
    ],
)
def test_classes_are_numbered_in_order(
    labels: list[Any], names: tuple[str, ...], numbers: list[int]
) -> None:
    found = read_data({"size": [0.5, 1.5, 2.5, 4.0], "label": labels})
    assert found.class_names == names
    np.testing.assert_array_equal(found.y_train, numbers)
    assert len(found.x_train) == len(numbers)


def test_right_labels_are_known_where_a_column_has_them() -> None:
    sizes, clean = [0.5, 1.5, 2.5, 4.0], ["a", "b", "a", "b"]
    noisy = ["a", "a", "a", "b"]
    by_name = read_data({"size": sizes, "label": noisy, "label_clean": clean})
    told = {"size": sizes, "label": clean, "label_weak": noisy}
    by_option = read_data(told, label="label_weak", truth="label")
    for found in (by_name, by_option):
        np.testing.assert_array_equal(found.y_train, [0, 0, 0, 1])
        np.testing.assert_array_equal(found.truth, [0, 1, 0, 1])
        assert found.x_train.shape == (4, 1)  # no label among the inputs
    assert read_data(told, truth="label").truth is not None
    found = read_data(told, truth="label")
    assert found.truth is found.y_train
    with pytest.raises(InputError, match=r"'label_clean' .* no value in 1 training row"):
        read_data({"size": sizes, "label": noisy, "label_clean": ["a", None, "a", "b"]})


def test_only_columns_that_are_named_are_inputs() -> None:
    found = read_data(FRAME, columns=("n", "size"))
    np.testing.assert_array_equal(found.x_train[:, 0], range(7, 23))
    assert found.x_train.shape == (16, 2)
    with pytest.raises(
        FieldError, match=r"`data.columns` to name inputs of .*size, city\), got 'x"
    ):
        read_data(FRAME, columns=("x",))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "not a CSV file with a header: empty CSV"),
        ("label,a\n", "has no rows"),
        ("target,a\n1,2\n", "no column 'label'. Did you mean 'target'.* Name it: --label COLUMN"),
        ("kind,a\nx,1\ny,2\nx,3\ny,4\n", r"no column 'label'\. .*few distinct .* kind \(2\)"),
        ("a,kind\n1,x\n2,y\n3,x\n1,y\n2,y\n3,x\n", r"values: kind \(2\), a \(3\)\."),
        ("label,a\n1,2\n2\n", "Line 3 of .* has 1 cells"),
        ("label,a\n1,2\n2,3,4\n", "more fields .* put texts with separators into quotes"),
        ("label,a,a\n1,2,3\n", "2 columns with the name 'a'"),
        ("label,a\n1,2\n2,x\n1,4\n", "column 'a' of .* hold numbers, as most .* got 'x' in row 2"),
        ("label,a\n1,2\n2,inf\n1,4\n", "finite numbers, got inf in row 2"),
        ("label,a\n1,2\n2,1e300\n1,4\n", "fit 32-bit numbers"),
        ("label,a\n1,2\n1,4\n", "at least 2 classes .* got 1 different value in 2 rows"),
        ("label\n1\n2\n", "no column of numbers or texts beside the labels"),
        ("label,a,split\n1,2,valid\n2,3,dev\n", "to say 'train' and 'test', got dev, valid"),
        ("label,a\n1,\xe9\n".encode("latin-1"), "invalid utf-8 sequence. Save it as UTF-8"),
        ("label,a\n1,2\n".encode("utf-16"), "text in UTF-16. Save it as UTF-8"),
    ],
)
def test_mistakes_are_explained_in_one_sentence(
    tmp_path: Path, text: str | bytes, expected: str
) -> None:
    path = write(tmp_path / "a.csv", text)
    with pytest.raises(InputError, match=f"{expected}"):
        read_data(path)
    assert check_file(path).command is None


def test_many_different_labels_are_no_classes(tmp_path: Path) -> None:
    rows = "\n".join(f"{n / 7},{n}" for n in range(50))
    with pytest.raises(InputError, match=r"got 50 different values in 50 rows\. Name the column"):
        read_data(write(tmp_path / "a.csv", f"label,a\n{rows}"))


def test_missing_and_oversized_files_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=r"as Parquet: "):
        read_data(write(tmp_path / "a.parquet", b"PAR1 no"))
    with pytest.raises(InputError, match=r"\.npz, \.csv, \.tsv, \.parquet"):
        read_data(write(tmp_path / "a.xlsx", b"x"))
    with pytest.raises(InputError, match=r"`data.path` names no file or folder"):
        read_data(tmp_path / "none.csv")
    path = write(tmp_path / "a.csv", "label,a\n1,2\n2,3\n")
    monkeypatch.setattr("rote.workloads.data.table_inputs.IN_MEMORY_BYTES", 4)
    with pytest.raises(InputError, match=r"2 rows of 1 numbers\..* Lower data\.vocabulary"):
        read_data(path)
    monkeypatch.setattr("rote.workloads.data.table.IN_MEMORY_BYTES", 4)
    with pytest.raises(InputError, match=r"too large .* 0\.0 GiB.* Keep fewer rows"):
        read_data(path)
    with pytest.raises(InputError, match=r"`data` to be a pandas or polars frame, .*, got int"):
        read_data(3)
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    twice = pandas.DataFrame([[1, 2], [3, 4]], columns=["label", "label"])
    with pytest.raises(InputError, match=r"`data` \(DataFrame\) .*different names"):
        read_data(twice)


@given(st.binary(max_size=60) | st.text("label,;\t\"\n\r1.5ax'é", max_size=60).map(str.encode))
@settings(max_examples=60, deadline=None)
def test_every_bad_file_gives_a_one_sentence_error(
    tmp_path_factory: pytest.TempPathFactory, rest: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(b"label,a\n" + rest)
    found = check_file(path)
    assert found.problems == () or "any.csv" in found.problems[0]
    assert (found.command is None) == bool(found.problems)


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.floats(-1e6, 1e6, width=32) | st.none()),
        min_size=4,
        max_size=15,
    )
)
@settings(max_examples=30, deadline=None)
def test_numbers_come_out_as_they_went_in(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, float | None]]
) -> None:
    known = [value for _, value in rows if value is not None]
    if len({label for label, _ in rows}) < 2 or not known:
        return
    path = tmp_path_factory.getbasetemp() / "numbers.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("label", "size"), *rows])
    filled = [np.mean(known) if value is None else value for _, value in rows]
    np.testing.assert_allclose(read_data(path).x_train[:, 0], filled, rtol=1e-6, atol=1e-30)


def test_a_hugging_face_dataset() -> None:
    datasets = pytest.importorskip("datasets", reason="the extra `datasets` is not installed")
    names = datasets.ClassLabel(names=["ham", "spam", "eggs"])
    features = datasets.Features({"text": datasets.Value("string"), "label": names})
    numbers = [1, 0] * 11 + [-1, 0]
    told = {"text": TEXTS, "label": numbers}
    split = datasets.Dataset.from_dict(told, features=features)
    found = read_data(datasets.DatasetDict(train=split, test=split, validation=split))
    kept = [text for text, number in zip(TEXTS, numbers, strict=True) if number >= 0]
    expected, _ = count_words(np.array(kept), None, 2000)
    np.testing.assert_array_equal(found.x_train, expected)
    np.testing.assert_array_equal(found.x_test, expected)
    assert found.class_names == ("ham", "spam", "eggs")
    with pytest.raises(InputError, match=r"got IterableDataset\. Load it without streaming"):
        read_data(split.to_iterable_dataset())
    pixels = np.random.default_rng(0).integers(0, 256, (24, 8, 8), dtype=np.uint8)
    features = datasets.Features({"image": datasets.Image(), "label": names})
    told = {"image": list(pixels), "label": numbers}
    found = read_data(datasets.Dataset.from_dict(told, features=features))
    assert found.inputs == "images"
    np.testing.assert_array_equal(found.x_train[..., 0], pixels[np.array(numbers) >= 0])


def test_text_column_with_many_inputs_is_reported(tmp_path: Path) -> None:
    words = "\n".join(f"{n % 2},{n * n}.5,word{n} and word{n + 1}" for n in range(30))
    path = write(tmp_path / "a.csv", f"label,a,notes\n{words}\n")
    found = read_data(path)
    assert found.x_train.shape == (30, 33)
    assert found.remarks[0].startswith(
        "1 text column (notes) became word counts: 2 input columns became 33 inputs."
    )
    assert check_file(path).summary["note"] == found.remarks[0]


def test_an_input_that_looks_like_true_labels_is_pointed_out(tmp_path: Path) -> None:
    rows = [f"{n},{'abc'[n % 3]},{'abc'[0 if n < 9 else n % 3]},{'cab'[n % 3]}" for n in range(30)]
    path = tmp_path / "my.csv"
    path.write_text("\n".join(["x,label,right,other", *rows]))
    (remark,) = read_data(path).remarks
    assert "'right' is used as an input" in remark
    assert "agrees with it in 80.0% of the rows" in remark
    assert "--truth right" in remark
    assert read_data(path, truth="right").remarks == ()
