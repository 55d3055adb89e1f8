"""Report of a tuning: Markdown with one picture.

page  tables and sentences
plot  gain against cost, as SVG
"""

from freki.cli.evaluate.reports.tuning.page import write_report
from freki.cli.evaluate.reports.tuning.plot import draw

__all__ = ["draw", "write_report"]
