import pytest

from rote.errors import MissingExtraError, RoteError
from rote.extras import require


def test_a_package_that_is_there_is_imported() -> None:
    assert require("json.decoder", extra="none").__name__ == "json.decoder"


def test_a_missing_package_names_its_extra() -> None:
    expected = r"package `no_such_package` to be installed, .* pip install 'rote\[datasets\]'"
    with pytest.raises(MissingExtraError, match=expected) as caught:
        require("no_such_package", extra="datasets")
    assert isinstance(caught.value, RoteError)
    assert isinstance(caught.value, ImportError)
