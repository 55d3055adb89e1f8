"""Errors of the HTTP door as problem details (RFC 9457)."""

import json
from collections.abc import Mapping
from http import HTTPStatus

from starlette.responses import JSONResponse

from freki.schemas.errors import InfraError, Rejected


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
        return JSONResponse(
            self._body(), status_code=self.status, headers=self.headers, media_type="application/problem+json"
        )

    def json(self) -> bytes:
        """Return the problem itself."""
        return json.dumps(self._body(), ensure_ascii=False).encode()

    def _body(self) -> dict[str, object]:
        return {"title": self.status.phrase, "status": self.status.value, "detail": self.detail, **self.more}


def problem_of(error: Problem | InfraError) -> Problem:
    """Return what failed below the door as a problem."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, Rejected):
        return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error), headers={"Retry-After": "1"})
