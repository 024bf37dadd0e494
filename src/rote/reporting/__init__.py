"""Things for eyes: charts and pages. Never imports torch."""

from rote.reporting import plot
from rote.reporting.page import Report, report

__all__ = ["Report", "plot", "report"]
