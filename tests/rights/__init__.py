"""Thousands of random operations, and after each what every user may see: `python -m tests.rights`."""
