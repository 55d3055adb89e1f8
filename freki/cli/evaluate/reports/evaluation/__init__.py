"""Report of an evaluation: one self-contained page.

page       assembly of the page
figures    tables and plots of a set
questions  questions with their rankings
plots      SVG
page.html  frame and style
"""

from freki.cli.evaluate.reports.evaluation.page import render

__all__ = ["render"]
