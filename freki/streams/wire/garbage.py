"""Garbage collection of processes that answer or process records for days."""

import gc

YOUNG_OBJECTS = 20_000
"""Number of new objects after which the youngest are searched for cycles: a query makes some thousands."""


def settle() -> None:
    """Leave all objects that exist now to the end of the process, and search new ones for cycles less often.

    Full collections would traverse all of them and delay a query by 0.1 s.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
