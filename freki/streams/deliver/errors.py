"""Reactions to exceptions: stop the stage, retry, or send the record to the dead letter topic."""

import enum

from freki.operators.errors import OperatorError
from freki.schemas.errors import Misconfigured, Rejected, Unavailable


class ErrorAction(enum.Enum):
    """Reaction to an exception, the most severe first."""

    STOP = "stop"
    """A setting is wrong: no record causes the error, and waiting does not help."""
    RETRY = "retry"
    """A service is down."""
    BUG = "bug"
    """The exception is unexpected: retry a few times, then treat the record as bad."""
    DEAD_LETTER = "dead_letter"
    """The record is bad."""


_ACTIONS: tuple[tuple[tuple[type[Exception], ...], ErrorAction], ...] = (
    ((Misconfigured,), ErrorAction.STOP),
    ((Unavailable,), ErrorAction.RETRY),
    ((OperatorError, Rejected), ErrorAction.DEAD_LETTER),
)


def action_for(error: Exception) -> ErrorAction:
    """Return the reaction to an exception; for a group, the most severe one of its members."""
    if isinstance(error, ExceptionGroup):
        actions = {action_for(inner) for inner in error.exceptions}
        return next(action for action in ErrorAction if action in actions)
    return next((action for kinds, action in _ACTIONS if isinstance(error, kinds)), ErrorAction.BUG)


def stops_stage(error: Exception) -> bool:
    """Return whether a service or a setting causes the error rather than a record."""
    return action_for(error) in {ErrorAction.STOP, ErrorAction.RETRY}
