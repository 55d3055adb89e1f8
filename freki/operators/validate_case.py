"""Whether a request for an erasure, a hold or an objection keeps its contract."""

from collections.abc import Sequence

from freki.operators.errors import InvalidRequest
from freki.schemas import OF_RETENTION, Coverage, ErasureRequest, Hold, Objection
from freki.schemas.names import FORBIDDEN_IN_LINE, MAX_ID_BYTES, ambiguous_tenant_reason

MAX_DOCUMENTS = 10_000
MAX_ATTRIBUTES = 16
MAX_NAME_BYTES = 256
MAX_VALUE_BYTES = 1_024
MAX_REASON_BYTES = 1_024


def validate_erasure_request(request: ErasureRequest, *, key: bytes, reply_topics: Sequence[str] = ()) -> None:
    """Raise InvalidRequest for the first broken rule, with the field, the limit and the fix."""
    _line("request_id", request.request_id, MAX_NAME_BYTES)
    if request.request_id.startswith(OF_RETENTION):
        raise InvalidRequest(f"request_id: {OF_RETENTION!r} begins those of rules of retention; give it another one")
    if key != request.request_id.encode():
        raise InvalidRequest("key: it is not request_id; send the record with request_id as its key")
    _tenant(request.tenant)
    if request.reason:
        _line("reason", request.reason, MAX_REASON_BYTES)
    if request.reply_to is not None and request.reply_to not in reply_topics:
        raise InvalidRequest(
            f"reply_to: {request.reply_to[:MAX_ID_BYTES]!r} is not among FREKI_RETRIEVAL__REPLY_TOPICS; leave it out, "
            "the topic of reports has the report"
        )
    _coverage(request.covers)


def validate_case(case: Hold | Objection) -> None:
    """Raise InvalidRequest for the first broken rule of a hold or an objection."""
    _tenant(case.tenant)
    _line("name", case.name, MAX_NAME_BYTES)
    _line("reason", case.reason, MAX_REASON_BYTES)
    _coverage(case.covers)


def _tenant(tenant: str) -> None:
    _line("tenant", tenant, MAX_ID_BYTES)
    if (reason := ambiguous_tenant_reason(tenant)) is not None:
        raise InvalidRequest(f"tenant: {reason}")


def _coverage(covers: Coverage) -> None:
    if covers.ways != 1:
        raise InvalidRequest(
            f"covers: {covers.ways} of documents, attributes and whole_tenant are given; give exactly one of them"
        )
    if len(covers.documents) > MAX_DOCUMENTS:
        raise InvalidRequest(
            f"covers.documents: {len(covers.documents)} are more than {MAX_DOCUMENTS}; send several, or use attributes"
        )
    if len(covers.attributes) > MAX_ATTRIBUTES:
        raise InvalidRequest(f"covers.attributes: {len(covers.attributes)} are more than {MAX_ATTRIBUTES}")
    for document in covers.documents:
        _line("covers.documents", document, MAX_ID_BYTES)
    for key, value in covers.attributes.items():
        _line("covers.attributes", key, MAX_ID_BYTES)
        _line(f"covers.attributes[{key}]", value, MAX_VALUE_BYTES)


def _line(field: str, text: str, max_bytes: int) -> None:
    if not text.strip():
        raise InvalidRequest(f"{field}: it is empty; give it 1 to {max_bytes} bytes")
    if found := FORBIDDEN_IN_LINE.search(text):
        raise InvalidRequest(f"{field}: control character U+{ord(found[0]):04X} at {found.start()}; remove it")
    if (size := len(text.encode())) > max_bytes:
        raise InvalidRequest(f"{field}: {size} bytes are more than {max_bytes}; shorten it")
