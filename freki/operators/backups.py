"""Backups in dated folders: their names, when the next one is due, which are superseded."""

import re
from collections.abc import Collection
from datetime import UTC, datetime

from freki.schemas import Timestamp

_NAME = re.compile(r"freki-(\d{8}T\d{6}Z)")
_TIME = "%Y%m%dT%H%M%SZ"
_INTERVAL = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def seconds_of(interval: str) -> float:
    """Return an interval such as `90s`, `30m`, `1h`, `1d` or `2w` in seconds; a bare number is in seconds.

    Raises ValueError unless it is one, and above 0.
    """
    found = _INTERVAL.fullmatch(interval.strip().lower())
    if found is None or float(found[1]) <= 0:
        raise ValueError(f"{interval!r} is not an interval: write it as 30m, 1h or 1d")
    return float(found[1]) * _SECONDS[found[2]]


def name_of(began_at: Timestamp) -> str:
    """Return the name of the folder of a backup; names sort by time, in whole seconds."""
    return f"freki-{datetime.fromtimestamp(began_at // 1000, UTC).strftime(_TIME)}"


def time_of(name: str) -> Timestamp | None:
    """Return when a backup began, by the name of its folder; None for other folders."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    try:
        return Timestamp(int(datetime.strptime(found[1], _TIME).replace(tzinfo=UTC).timestamp() * 1000))
    except ValueError:
        return None


def wait_s(complete: Collection[str], *, every_s: float, now: Timestamp) -> float:
    """Return the seconds until the next backup is due, given the names of the complete ones; 0 if it is due.

    Backups of the future do not count: a clock was ahead.
    """
    times = [time for name in complete if (time := time_of(name)) is not None and time <= now]
    return max(0.0, max(times) / 1000 + every_s - now / 1000) if times else 0.0


def superseded_backups(
    complete: Collection[str], unfinished: Collection[str], *, keep: int, now: Timestamp
) -> list[str]:
    """Return the names of backups to remove, oldest first, so that the `keep` newest complete ones stay.

    Backups of the future count as the oldest: they were made before a clock was set back, so before all others. An
    unfinished one goes once a complete one is newer. Raises ValueError if `keep` is below 1.
    """
    if keep < 1:
        raise ValueError(f"keep must be at least 1, got {keep}")

    def order(name: str) -> tuple[bool, str]:
        # Names have whole seconds.
        return name <= name_of(now), name

    dated = sorted((name for name in complete if time_of(name) is not None), key=order)
    stale = [name for name in unfinished if time_of(name) is not None and dated and order(name) < order(dated[-1])]
    return sorted([*dated[:-keep], *stale], key=order)
