"""Charts, report pages and figures. Nothing here imports torch."""

from rote.reporting import plot
from rote.reporting.charts import Chart
from rote.reporting.live import LivePage, Look as Look
from rote.reporting.write_report import Report, report

__all__ = ["Chart", "LivePage", "Report", "plot", "report"]
