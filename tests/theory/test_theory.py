import subprocess
import sys
from pathlib import Path

import pytest

import rote.theory


def test_importing_the_theory_does_not_import_torch() -> None:
    program = "import sys, rote.theory; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_that_check_would_notice_torch(tmp_path: Path) -> None:
    (tmp_path / "torch.py").touch()  # the real one takes seconds to import
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import torch, rote.theory; "
    program += "sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 1


def test_every_public_name_exists_and_is_documented() -> None:
    for name in rote.theory.__all__:
        assert getattr(rote.theory, name).__doc__, name


def test_the_old_spelling_still_works_and_says_so() -> None:
    with pytest.warns(DeprecationWarning, match="Use `steps_to_memorize`"):
        assert rote.theory.steps_to_memorise is rote.theory.steps_to_memorize
    with pytest.raises(AttributeError, match="has no attribute 'steps_to_forget'"):
        _ = rote.theory.steps_to_forget
