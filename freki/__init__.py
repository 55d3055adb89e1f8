"""Freki keeps a search index true to a stream of document changes and answers context queries from it."""

import os

__version__ = "0.1.0"

# ONNX Runtime sends what it does to its maker unless this is set before it is loaded. What our users do is nobody's.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
