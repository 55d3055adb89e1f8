"""Errors of the HTTP API as problem details (RFC 9457)."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from starlette.responses import JSONResponse

from freki.infra.api.sizes import fitting
from freki.schemas.errors import InfraError, Misconfigured, Rejected

MEDIA_TYPE: Final = "application/problem+json"
DESCRIBED: Final = {
    "description": "Problem details (RFC 9457)",
    "content": {
        MEDIA_TYPE: {
            "schema": {
                "type": "object",
                "properties": {
                    "title": {"type": "string"},
                    "status": {"type": "integer"},
                    "detail": {"type": "string", "description": "what to change"},
                    "errors": {
                        "type": "array",
                        "description": "of 422: fields that are wrong",
                        "items": {
                            "type": "object",
                            "properties": {"field": {"type": "string"}, "message": {"type": "string"}},
                            "required": ["field", "message"],
                        },
                    },
                    "trace_id": {"type": "string", "description": "of a query that was refused"},
                    "version": {"type": "integer", "description": "of a document that was refused"},
                },
                "required": ["title", "status", "detail"],
            }
        }
    },
}
"""What comes in place of an answer, for the description of all routes."""


class Problem(Exception):
    """A request that is not answered as asked."""

    def __init__(
        self, status: HTTPStatus, detail: str, *, headers: Mapping[str, str] | None = None, **more: object
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = fitting(detail)
        self.headers = headers
        self.more = more

    def response(self) -> JSONResponse:
        """Return the response that tells it."""
        return JSONResponse(self._body(), status_code=self.status, headers=self.headers, media_type=MEDIA_TYPE)

    def json(self) -> bytes:
        """Return the problem itself."""
        return json.dumps(self._body(), ensure_ascii=False).encode()

    def _body(self) -> dict[str, object]:
        return {"title": self.status.phrase, "status": self.status.value, "detail": self.detail, **self.more}


def problem_of(error: Problem | InfraError) -> Problem:
    """Return what failed below the API as a problem."""
    if isinstance(error, Problem):
        return error
    # A setting of the server, or a right that it lacks, is no fault of the caller.
    if isinstance(error, Rejected) and not isinstance(error, Misconfigured):
        return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
    return unavailable(error.for_callers)


def unavailable(why: str) -> Problem:
    """Return the problem of a request that may be answered later."""
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, why, headers={"Retry-After": "1"})
