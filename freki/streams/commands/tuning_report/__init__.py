"""The report of a tuning, to be kept: Markdown with one picture.

page  tables and sentences
plot  gain against cost, as SVG
"""

from freki.streams.commands.tuning_report.page import write_report
from freki.streams.commands.tuning_report.plot import draw

__all__ = ["draw", "write_report"]
