"""These tests need a Docker engine, and are there only for those who asked for containers."""

import os

collect_ignore_glob = [] if os.environ.get("FREKI_TEST_STACK") == "containers" else ["test_*.py"]
