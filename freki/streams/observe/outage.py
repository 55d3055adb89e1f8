"""Log lines of loops that look at something all the time."""

from typing import Any

import structlog


class OutageLog:
    """Logs the first failure of each outage as a warning; the following ones, until a look succeeds, say the same."""

    def __init__(self, event: str) -> None:
        """Begin without an outage; event: the text of the line, which says what the outage means for the user."""
        self._log = structlog.get_logger(__name__)
        self._event = event
        self._is_out = False

    def failed(self, error: Exception, **details: Any) -> None:  # noqa: ANN401 - as structlog takes them
        """Note a look that failed; details: further fields of the line."""
        if not self._is_out:
            self._log.warning(self._event, error=str(error), **details)
        self._is_out = True

    def succeeded(self) -> None:
        """Note a look that succeeded: the next failure is another outage."""
        self._is_out = False
