"""When a worker counts as stalled: settings leave time for one document within it, and stages end by it."""

MAX_BATCH_S = 3600.0
"""Longest time that a stage may take with a batch, in seconds: 32 events may cause thousands of calls of a language
model. A stage that takes longer is stalled, and its worker ends.
"""
