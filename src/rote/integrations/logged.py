"""What a callback hands to the logger of its trainer."""

from rote.records import Reading


def logged_of(reading: Reading | None) -> dict[str, float]:
    """What is logged of a reading, if there is one."""
    if reading is None:
        return {}
    found = {
        "susceptibility": reading.susceptibility,
        "susceptibility_plain": reading.susceptibility_plain,
        "probe/drop": reading.drop,
    }
    return {name: value for name, value in found.items() if value is not None}
