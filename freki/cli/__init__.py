"""The command line."""

import os

# Before NumPy is loaded: its products here are small, and threads for them would compete with the models'.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
