"""Errors of the HTTP door as problem details (RFC 9457)."""

from collections.abc import Mapping
from http import HTTPStatus

from starlette.responses import JSONResponse


class Problem(Exception):
    """A request that is not answered as asked."""

    def __init__(
        self, status: HTTPStatus, detail: str, *, headers: Mapping[str, str] | None = None, **more: object
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = headers
        self.more = more

    def response(self) -> JSONResponse:
        """Return the response that tells it."""
        body = {"title": self.status.phrase, "status": self.status.value, "detail": self.detail, **self.more}
        return JSONResponse(body, status_code=self.status, headers=self.headers, media_type="application/problem+json")
