"""Comparison of Freki with other frameworks: same models, data and store, separate environments."""
