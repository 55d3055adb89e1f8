"""Erasure with topics, store and claims, as the settings say: for commands and for the worker."""

from freki.streams.wire.erasing.open import open_erasure, open_places, open_rectification

__all__ = ["open_erasure", "open_places", "open_rectification"]
