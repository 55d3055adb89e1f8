"""What holds for all tests."""

from hypothesis import settings

# Time is no result: machines differ, and others work on them too.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
