import subprocess
import sys
from pathlib import Path

import pytest

from rote.errors import MissingExtraError, RoteError
from rote.extras import find_classes, list_modules, require


def test_a_package_that_is_there_is_imported() -> None:
    assert require("json.decoder", extra="none").__name__ == "json.decoder"


def test_a_missing_package_names_its_extra() -> None:
    expected = r"Package `no_such_package` cannot be imported.* pip install 'rote\[datasets\]'"
    with pytest.raises(MissingExtraError, match=expected) as caught:
        require("no_such_package", extra="datasets")
    assert isinstance(caught.value, RoteError)
    assert isinstance(caught.value, ImportError)


def test_modules_of_a_folder_are_listed_without_importing_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "judges"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "truncated.py").write_text("raise RuntimeError")
    (folder / "fair.py").write_text(
        "from decimal import Context\n\nclass Fair:\n    def judge(self): ...\n\nclass Idle: ...\n"
        "class Borrowed(Context):\n    def judge(self): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert list_modules("judges") == ("fair", "truncated")
    assert list_modules("judges.nothing") == ()
    (folder / "truncated.py").write_text("from judges.fair import Fair  # not written here")
    assert [found.__name__ for found in find_classes("judges", "judge")] == ["Fair", "Borrowed"]


def test_python_without_docstrings_is_refused_in_one_sentence(tmp_path: Path) -> None:
    code = f"import rote\nrote.report({str(tmp_path)!r}, {str(tmp_path / 'page.html')!r})"
    done = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True)
    assert "MissingExtraError: Package `altair` cannot be imported by python -OO" in done.stderr
