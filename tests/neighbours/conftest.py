"""The whole stack of the acceptance tests, once for this folder's tests."""

from tests.acceptance.conftest import freki

__all__ = ["freki"]
