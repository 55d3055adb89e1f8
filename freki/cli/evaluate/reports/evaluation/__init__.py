"""The report of an evaluation: one page that needs nothing else.

page       the whole of it
figures    tables and plots of a set
questions  questions with their rankings
plots      SVG
page.html  what stands around the results, and the style
"""

from freki.cli.evaluate.reports.evaluation.page import render

__all__ = ["render"]
