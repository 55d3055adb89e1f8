"""Requests that do not arrive: their connections are closed, so that they do not use up the process's open files."""

import asyncio
from http import HTTPStatus
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE_S: Final = 10.0
"""Time in which headers must be there, and a small body, from the connection or the first byte on."""
SLOWEST: Final = 10_000
"""Bytes a second from which on a large request may take longer."""


class TimedRequests(H11Protocol):
    """The protocol of a server of uvicorn, which by itself waits for a request for ever."""

    _begun_s = 0.0
    _received = 0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect a request."""
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Expect the rest of the request, if there is one."""
        super().data_received(data)
        self._received += len(data)
        self._follow()

    def on_response_complete(self) -> None:
        """Expect the rest of a request that was sent along with the last one."""
        super().on_response_complete()
        self._follow()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing more."""
        self._stop()
        super().connection_lost(exc)

    def _follow(self) -> None:
        state = self.conn.their_state
        if state is h11.SEND_BODY or (state is h11.IDLE and self.conn.trailing_data[0]):
            self._expect()
        else:
            self._stop()

    def _expect(self) -> None:
        if self._timer is None:
            self._begun_s, self._received = self.loop.time(), 0
            self._timer = self.loop.call_later(PATIENCE_S, self._look)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """Close the connection, unless the request has come as fast as it must, or we did not read on."""
        left_s = self._begun_s + PATIENCE_S + self._received / SLOWEST - self.loop.time()
        if self.flow.read_paused:
            left_s = PATIENCE_S
        if left_s > 0:
            self._timer = self.loop.call_later(left_s, self._look)
            return
        self._timer = None
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            # Answered before its body came, which is not awaited any more.
            self.transport.abort()
            return
        if self.cycle is not None:
            self.cycle.disconnected = True
        self._refuse()
        self.transport.close()

    def _refuse(self) -> None:
        status = HTTPStatus.REQUEST_TIMEOUT
        head = h11.Response(
            status_code=status, reason=status.phrase, headers=[("Content-Length", "0"), ("Connection", "close")]
        )
        for event in (head, h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
