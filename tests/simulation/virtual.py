"""Replaces clocks, chance and logs of the code under test, where it does not take them as arguments."""

import gc
import logging
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from types import ModuleType
from typing import Any

import structlog

EPOCH_S = 1_700_000_000


class Now:
    """Stands for the modules `time` and `random` while a scenario runs."""

    def __init__(self) -> None:
        self.seconds: Callable[[], float] = float
        self.chance = Random(0)  # noqa: S311 - its seed is the point

    def time(self) -> float:
        return EPOCH_S + self.seconds()

    def time_ns(self) -> int:
        return EPOCH_S * 1_000_000_000 + int(self.seconds() * 1e9)

    def monotonic(self) -> float:
        return self.seconds()

    def perf_counter(self) -> float:
        return self.seconds()

    def random(self) -> float:
        return self.chance.random()

    def uniform(self, low: float, high: float) -> float:
        return self.chance.uniform(low, high)


NOW = Now()


@contextmanager
def virtual() -> Iterator[Now]:
    """Give every module of the code under test our clock and our chance, and keep it silent."""
    replaced: list[tuple[ModuleType, str, Any]] = []
    for name, module in list(sys.modules.items()):
        if name.startswith("freki."):
            for attribute, real in (("time", time), ("random", random)):
                if getattr(module, attribute, None) is real:
                    replaced.append((module, attribute, real))
                    setattr(module, attribute, NOW)
    settings = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    was_enabled = gc.isenabled()
    # When a cycle is collected depends on all that ran before; `simulate.run` does it between runs.
    gc.disable()
    # What is there by now stays, and need not be looked through each time.
    gc.freeze()
    try:
        yield NOW
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()
        structlog.configure(**settings)
        for module, attribute, real in replaced:
            setattr(module, attribute, real)
