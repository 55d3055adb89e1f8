"""Garbage collection of processes that answer or process records for days."""

import gc

YOUNG_OBJECTS = 20_000
"""Number of new objects after which the youngest generation is collected; 700 by default."""


def settle() -> None:
    """Exclude all objects that exist now from collection, and collect new ones less often.

    Full collections would traverse all of them and delay a query by 0.1 s.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
