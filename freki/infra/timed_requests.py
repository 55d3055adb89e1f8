"""Requests that do not arrive, answers that nobody reads: their connections are closed, and use up no open files."""

import asyncio
from http import HTTPStatus
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE_S: Final = 10.0
"""Time in which headers must be there, and a small body, from the connection or the first byte on."""
SLOWEST: Final = 10_000
"""Bytes a second from which on a large request may take longer."""
MOST_UNWANTED_BYTES: Final = 100_000_000
"""Most bytes of a body that are read after its answer: clients that send all of it first hear why it is refused."""
UNREAD_S: Final = 60.0
"""Time in which a client must take something of an answer that waits for it."""


class TimedRequests(H11Protocol):
    """The protocol of a server of uvicorn, which by itself waits for a client to send or read for ever."""

    _begun_s = 0.0
    _received = 0
    _unwanted = 0
    _timer: asyncio.TimerHandle | None = None
    _unread_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect a request."""
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Expect the rest of the request, if there is one."""
        super().data_received(data)
        self._received += len(data)
        if self._is_unwanted:
            self._unwanted += len(data)
            if self._unwanted > MOST_UNWANTED_BYTES:
                # It may have no end.
                self.transport.abort()
                return
        self._follow()

    def on_response_complete(self) -> None:
        """Expect the rest of a request that was sent along with the last one."""
        super().on_response_complete()
        self._unwanted = 0
        self._follow()
        self._expect_reading()

    def pause_writing(self) -> None:
        """Expect that the client reads."""
        super().pause_writing()
        self._expect_reading()

    def resume_writing(self) -> None:
        """Expect no more: the client reads."""
        super().resume_writing()
        self._stop_expecting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing more."""
        self._stop()
        self._stop_expecting()
        super().connection_lost(exc)

    def _should_upgrade(self) -> bool:
        """Return that no connection goes over to another protocol, where none of this would count."""
        return False

    @property
    def _is_unwanted(self) -> bool:
        """Whether a body still comes whose request is answered."""
        return self.conn.their_state is h11.SEND_BODY and self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE)

    def _expect_reading(self) -> None:
        self._stop_expecting()
        if (unread := self.transport.get_write_buffer_size()) > 0:
            self._unread_timer = self.loop.call_later(UNREAD_S, self._look_at_unread, unread)

    def _stop_expecting(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def _look_at_unread(self, before: int) -> None:
        """Close the connection if as many bytes wait as before, and none can have been added."""
        is_at_rest = self.flow.write_paused or self.transport.is_closing()
        if is_at_rest and self.transport.get_write_buffer_size() >= before:
            # Closing it would wait until all is read.
            self.transport.abort()
        else:
            self._expect_reading()

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
