import pytest

from rote.reporting.palette import DARK, DARK_SHADES, LIGHT, LIGHT_SHADES, REGION_COLORS

pytestmark = pytest.mark.xdist_group("figures")


def luminance(color: str) -> float:
    """As WCAG 2 defines it."""
    shares = (int(color[start : start + 2], 16) / 255 for start in (1, 3, 5))
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.005)


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_text_and_marks_stand_out(palette: dict[str, str]) -> None:
    for name in ("ink", "quiet", "accent", "highlight"):
        assert contrast(palette[name], palette["paper"]) >= 4.5, name
    for mark in (palette["line"], *REGION_COLORS):
        assert contrast(mark, palette["paper"]) >= 3, mark
    assert palette.keys() == LIGHT.keys()


def over(color: str, paper: str, opacity: float) -> str:
    """What is seen of a color that lets paper through."""
    pairs = [(int(color[i : i + 2], 16), int(paper[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(opacity * c + (1 - opacity) * p):02x}" for c, p in pairs)


def test_points_stand_out_on_dark_paper_whatever_their_test_accuracy() -> None:
    for shade in DARK_SHADES.values():
        assert contrast(over(shade, DARK["paper"], 0.85), DARK["paper"]) >= 3, shade


@pytest.mark.parametrize("shades", [LIGHT_SHADES, DARK_SHADES])
def test_shades_get_brighter_with_the_value(shades: dict[str, str]) -> None:
    found = [luminance(shade) for shade in shades.values()]
    assert found == sorted(found)
    assert len(set(found)) == len(found)
    assert shades.keys() == LIGHT_SHADES.keys()
    assert not shades.keys() & LIGHT.keys()
