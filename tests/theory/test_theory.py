import rote.theory


def test_every_public_name_exists_and_is_documented() -> None:
    for name in rote.theory.__all__:
        assert getattr(rote.theory, name).__doc__, name
