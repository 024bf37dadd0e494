"""Things for eyes: charts and pages. Never imports torch."""

from rote.reporting import plot
from rote.reporting.charts import Chart
from rote.reporting.page import Report, report

__all__ = ["Chart", "Report", "plot", "report"]
