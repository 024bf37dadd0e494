import pytest

import rote.theory


def test_every_public_name_exists_and_is_documented() -> None:
    for name in rote.theory.__all__:
        assert getattr(rote.theory, name).__doc__, name


def test_the_old_spelling_still_works_and_says_so() -> None:
    with pytest.warns(DeprecationWarning, match="Use `steps_to_memorize`"):
        assert rote.theory.steps_to_memorise is rote.theory.steps_to_memorize
    with pytest.raises(AttributeError, match="has no attribute 'steps_to_forget'"):
        _ = rote.theory.steps_to_forget
