"""Answer calls of tools: arguments become a query, its result becomes text and JSON."""

import secrets
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import structlog
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from freki.client.exchange import AlreadyAsked, NotSent, patience_of
from freki.schemas import ContextQuery, QueryId, ResultStatus, TenantId, Timestamp
from freki.schemas.avro import UndecodableError
from freki.schemas.errors import InfraError, Misconfigured, Rejected
from freki.schemas.names import record
from freki.schemas.tools import Bearer, ToolReply
from freki.streams.ports import QueryClient
from freki.streams.tools.definition import ARGUMENTS
from freki.streams.tools.reply import reply_of

_log = structlog.get_logger(__name__)

_REFUSED = frozenset({ResultStatus.REJECTED, ResultStatus.EXPIRED})
_MOST_PROBLEMS = 20
"""Most problems of a call that its reply names."""
_MOST_NAME_CHARS = 100
"""Most characters of a name that a reply repeats: it may be as long as a call."""


@record
class ToolCaller:
    """Identity of the caller of tools; no argument of a tool changes it."""

    tenant: TenantId
    principals: Sequence[str]
    deadline_ms: int
    """Deadline of each call."""


class Toolbox:
    """Answers calls. Errors are replies too, and name the fix: agents read replies only."""

    def __init__(
        self,
        client: QueryClient,
        caller: ToolCaller,
        *,
        now: Callable[[], Timestamp],
        random_hex: Callable[[int], str] = secrets.token_hex,
    ) -> None:
        self._client = client
        self._caller = caller
        self._now = now
        self._random_hex = random_hex

    async def call(self, name: str, arguments: Mapping[str, Any], bearer: Bearer | None = None) -> ToolReply:
        """Answer one call. Raises nothing that arguments or failures of Freki can cause.

        bearer: who calls, in place of the caller of the toolbox.
        """
        if name not in ARGUMENTS:
            return ToolReply(text=f"there is no tool {_short(name)!r}; there are {', '.join(ARGUMENTS)}")
        # Not by the model: an error for each of very many would hold up the calls of all others.
        if unknown := arguments.keys() - ARGUMENTS[name].model_fields:
            return ToolReply(text=_unknown(unknown, known=ARGUMENTS[name].model_fields))
        try:
            read = ARGUMENTS[name].model_validate(arguments)
        except ValidationError as error:
            problems = error.errors(include_url=False)[:_MOST_PROBLEMS]
            return ToolReply(text="\n".join(_problem(name, each) for each in problems))
        query = ContextQuery(
            query_id=QueryId(str(uuid.uuid4())),
            tenant=self._caller.tenant if bearer is None else bearer.tenant,
            principals=tuple(self._caller.principals) if bearer is None else (),
            asked_at=self._now(),
            deadline_ms=self._caller.deadline_ms,
            **read.asks(),
        )
        return await self._answer(query, read.stands_for, token=None if bearer is None else bearer.token)

    async def _answer(self, query: ContextQuery, stands_for: Mapping[str, str], *, token: str | None) -> ToolReply:
        patience_s = patience_of(self._caller.deadline_ms)
        try:
            result = await self._client.ask(query, patience_s=patience_s, token=token)
        except NotSent as error:
            return _unreachable(str(error))
        except TimeoutError:
            return ToolReply(
                text=f"Freki gave no answer within {patience_s:.0f} s: call again; if that does not help, whoever runs "
                "it should see with `freki status` whether a worker runs the retrieve stage"
            )
        except InfraError as error:
            return _failed(error, token)
        except (AlreadyAsked, UndecodableError) as error:
            # Two calls at once with a token that serves one query; or a worker of another version.
            return ToolReply(text=str(error))
        if result.status in _REFUSED:
            return ToolReply(text="; ".join(_of_arguments(notice.message, stands_for) for notice in result.notices))
        return reply_of(result, kind=query.kind, mark=self._random_hex(8))


def _failed(error: InfraError, token: str | None) -> ToolReply:
    # A setting, or a right that is missing, is no fault of the call.
    if isinstance(error, Rejected) and not isinstance(error, Misconfigured):
        return ToolReply(text=f"the call cannot be sent: {error}. Call with shorter arguments")
    return _unreachable(str(error)) if token is None else _not_answered(error)


def _unreachable(why: str) -> ToolReply:
    return ToolReply(
        text=f"Freki cannot be reached: {why}\nCall again once it runs: `freki up` starts a local stack, "
        "FREKI_KAFKA__BOOTSTRAP names other brokers"
    )


def _not_answered(error: InfraError) -> ToolReply:
    """Tell a caller on another machine, who may learn no hosts of this one."""
    _log.warning("call not answered", reason=str(error))
    return ToolReply(text=f"Freki gave no answer: {error.for_callers}. Call again later")


def _of_arguments(message: str, stands_for: Mapping[str, str]) -> str:
    """Return a refusal under the name of the argument: its model knows no fields of queries."""
    field, colon, problem = message.partition(": ")
    return f"{stands_for.get(field, field)}{colon}{problem}"


def _unknown(names: Collection[str], *, known: Collection[str]) -> str:
    """Say which arguments a tool does not have, and which it has."""
    told = ", ".join(_short(name) for name in sorted(names)[:_MOST_PROBLEMS])
    return f"{told}: no argument of this tool; it has {', '.join(known)}"


def _short(name: str) -> str:
    return name if len(name) <= _MOST_NAME_CHARS else f"{name[:_MOST_NAME_CHARS]} …"


def _problem(name: str, error: ErrorDetails) -> str:
    """Describe what is wrong with an argument, and what it should be."""
    where = ".".join(map(str, error["loc"])) or name
    field = ARGUMENTS[name].model_fields.get(where.partition(".")[0])
    return f"{where}: {error['msg']}. {field.description if field else ''}".strip()
