"""Generate `docs/asyncapi.yaml` from topics and contracts: `python -m freki.streams.asyncapi`."""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from freki import __version__
from freki.schemas import (
    AuditEntry,
    ChunkBatch,
    ContextQuery,
    ContextResult,
    ContextualChunkBatch,
    Coverage,
    DocumentChange,
    DocumentId,
    DocumentQuery,
    DocumentQueryKind,
    DocumentReport,
    ErasureReport,
    ErasureRequest,
    GroupMembership,
    Hold,
    IndexOutcome,
    Judgement,
    Objection,
    Operation,
    QueryId,
    TenantId,
    Timestamp,
    Verdict,
)
from freki.schemas.avro import packaged_contracts
from freki.schemas.avro.contracts import COMPATIBILITY, Compatibility
from freki.schemas.avro.convert import to_plain
from freki.streams.messages import REINDEX_HEADER, TOKEN_HEADER, VERSION_HEADER
from freki.streams.topics import Topic, Topics

FILE = Path("docs/asyncapi.yaml")
AVRO = "application/vnd.apache.avro;version=1.9.0"
"""Format of the schemas, as the specification names it."""
_INTERNAL = (ChunkBatch, ContextualChunkBatch)
_HEAD = "# Written by `make docs` from topics and contracts. docs/topics.md explains keys, framing and what to do.\n"
_DESCRIPTION = """Freki keeps a search index true to a stream of document changes and answers queries from it.

Values are Avro in single-object encoding: C3 01, the fingerprint of the schema (CRC-64-AVRO, little endian), the
binary; or, with a schema registry, in Confluent's wire format. Names of topics begin with FREKI_KAFKA__TOPIC_PREFIX;
partitions, replicas and retention are those of `freki topics apply` by default.
"""
_TRACE = "W3C trace context: the answer or the receipt joins the trace."
_HEADERS: Mapping[type, Mapping[str, str]] = {
    DocumentChange: {
        "freki-priority": "Decimal; above 0 the change is urgent, as with the field `priority`.",
        VERSION_HEADER: "Decimal; of a record without a value: the version of the deletion that it follows.",
        REINDEX_HEADER: "Set by `freki reindex` alone: time of the request, in milliseconds.",
    },
    ContextQuery: {TOKEN_HEADER: "Signed token of who asks, where the workers demand one."},
    DocumentQuery: {TOKEN_HEADER: "Signed token of who asks, where the workers demand one."},
    ErasureRequest: {TOKEN_HEADER: "Signed token of who requests it, where the worker demands one."},
}
_KEYS: Mapping[type, str] = {
    DocumentChange: "tenant/document_id",
    IndexOutcome: "tenant/document_id",
    ContextQuery: "query_id",
    ContextResult: "query_id",
    DocumentQuery: "query_id",
    DocumentReport: "query_id",
    Judgement: "JSON array of tenant, judge, query_id, document_id",
    GroupMembership: "JSON array of tenant, principal",
    AuditEntry: "writer",
    Hold: "JSON array of tenant, name",
    Objection: "JSON array of tenant, name",
    ErasureRequest: "request_id",
    ErasureReport: "JSON array of tenant, request_id",
}
_REPLIES: Mapping[type, type] = {
    ContextQuery: ContextResult,
    DocumentQuery: DocumentReport,
    DocumentChange: IndexOutcome,
    ErasureRequest: ErasureReport,
}
"""Records that are answered, and by what."""
_CORRELATED: Mapping[type, str] = {
    **dict.fromkeys((ContextQuery, ContextResult, DocumentQuery, DocumentReport), "query_id"),
    **dict.fromkeys((ErasureRequest, ErasureReport), "request_id"),
    **dict.fromkeys((DocumentChange, IndexOutcome), "document_id"),
}
"""Field that joins a record to its answer."""
_EMPTIED = frozenset({DocumentChange, Judgement, GroupMembership, Hold, Objection})
"""Records whose key may come without a value: it takes them back."""
_NOON = Timestamp(1_767_265_200_000)
_TENANT, _DOCUMENT = TenantId("acme"), DocumentId("handbook/leave.md")
_QUERY = QueryId("2f1c7f0e-3c0b-4c6c-8d0f-1f1d8a4f9b10")
_EXAMPLES: tuple[Any, ...] = (
    DocumentChange(
        tenant=_TENANT,
        document_id=_DOCUMENT,
        operation=Operation.UPSERT,
        version=_NOON,
        occurred_at=_NOON,
        principals=("everyone",),
        content="Urlaub ist bei der Leitung zu beantragen.",
    ),
    ContextQuery(query_id=_QUERY, tenant=_TENANT, text="Wer genehmigt Urlaub?", asked_at=_NOON, principals=("ada",)),
    DocumentQuery(query_id=_QUERY, tenant=_TENANT, kind=DocumentQueryKind.LIST, asked_at=_NOON, principals=("ada",)),
    Judgement(
        tenant=_TENANT,
        judge="ada",
        query_id=_QUERY,
        question="Wer genehmigt Urlaub?",
        document_id=_DOCUMENT,
        chunk_id=None,
        verdict=Verdict.UP,
        at=_NOON,
    ),
    GroupMembership(tenant=_TENANT, principal="ada", groups=("hr",)),
    ErasureRequest(
        request_id=str(_QUERY),
        tenant=_TENANT,
        covers=Coverage(documents=(_DOCUMENT,)),
        requested_at=_NOON,
        reason="21-17",
    ),
)


def _text(dumper: Any, text: str) -> Any:  # noqa: ANN401 - PyYAML is untyped
    """Write text of several lines as it is."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper: Any = type("_Dumper", (yaml.SafeDumper,), {})
_Dumper.add_representer(str, _text)


def document() -> dict[str, Any]:
    """Return the document: what crosses the topics that services use, as seen from Freki."""
    topics = list(_topics())
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Freki",
            "version": __version__,
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
            "tags": [{"name": "kafka"}],
        },
        "defaultContentType": "avro/binary",
        "servers": {
            "local": {
                "host": "127.0.0.1:9092",
                "protocol": "kafka",
                "description": "Broker of a local stack; `freki status` shows its port",
            }
        },
        "channels": {_channel(topic): _channel_of(topic) for topic in topics},
        "operations": {_operation(topic): _operation_of(topic) for topic in topics},
        "components": {"messages": {_record(topic).__name__: _message(_record(topic)) for topic in topics}},
    }


def page() -> str:
    """Return the document as YAML."""
    text: str = yaml.dump(document(), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return _HEAD + text


def _topics() -> Iterator[Topic]:
    declared = Topics.from_settings(prefix="freki", version=1, partitions=4, replication=1, max_message_bytes=5_000_000)
    return (topic for topic in declared if topic.holds is not None and topic.holds not in _INTERNAL)


def _record(topic: Topic) -> type:
    if topic.holds is None:
        raise ValueError(f"{topic.name} holds bytes of any topic")
    return topic.holds


def _channel(topic: Topic) -> str:
    """Return the middle part of the name, without hyphens: ids of channels are used in code."""
    first, *rest = topic.name.split(".")[1].split("-")
    return first + "".join(map(str.capitalize, rest))


def _operation(topic: Topic) -> str:
    return f"{_action(topic)}{_record(topic).__name__}"


def _action(topic: Topic) -> str:
    is_ours = COMPATIBILITY[_record(topic)] is Compatibility.FULL_TRANSITIVE
    return "send" if is_ours else "receive"


def _channel_of(topic: Topic) -> dict[str, Any]:
    record = _record(topic)
    names = [record.__name__]
    return {
        "address": topic.name,
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in names},
        "bindings": {
            "kafka": {
                "topic": topic.name,
                "partitions": topic.partitions,
                "replicas": topic.replication,
                "topicConfiguration": {
                    "cleanup.policy": [topic.cleanup],
                    ("delete.retention.ms" if topic.cleanup == "compact" else "retention.ms"): topic.retention_ms,
                    "max.message.bytes": topic.max_message_bytes,
                },
                "bindingVersion": "0.5.0",
            }
        },
    }


def _operation_of(topic: Topic) -> dict[str, Any]:
    record = _record(topic)
    operation: dict[str, Any] = {
        "action": _action(topic),
        "channel": {"$ref": f"#/channels/{_channel(topic)}"},
        "summary": f"Freki {'writes' if _action(topic) == 'send' else 'reads'} each {record.__name__}",
    }
    if (answer := _REPLIES.get(record)) is not None:
        (to,) = (each for each in _topics() if each.holds is answer)
        operation["reply"] = {
            "channel": {"$ref": f"#/channels/{_channel(to)}"},
            "messages": [{"$ref": f"#/channels/{_channel(to)}/messages/{answer.__name__}"}],
        }
    return operation


def _message(record: type) -> dict[str, Any]:
    contract = packaged_contracts().current(record.__name__)
    taken_back = " A record without a value takes back what its key names." if record in _EMPTIED else ""
    message: dict[str, Any] = {
        "name": record.__name__,
        "title": record.__name__,
        "summary": f"{contract.schema.get('doc', record.__name__)}{taken_back}",
        "contentType": "avro/binary",
        "headers": {
            "type": "object",
            "properties": {
                name: {"type": "string", "description": what}
                for name, what in {**_HEADERS.get(record, {}), "traceparent": _TRACE}.items()
            },
        },
        "payload": {"schemaFormat": AVRO, "schema": contract.schema},
        "bindings": {"kafka": {"key": {"type": "string", "description": _KEYS[record]}, "bindingVersion": "0.5.0"}},
    }
    if (field := _CORRELATED.get(record)) is not None:
        message["correlationId"] = {
            "location": f"$message.payload#/{field}",
            "description": "Equal in what is sent and in its answer"
            + (", with tenant and version" if field == "document_id" else ""),
        }
    examples = [_example(example) for example in _EXAMPLES if type(example) is record]
    return {**message, "examples": examples} if examples else message


def _example(value: object) -> dict[str, Any]:
    record: type = type(value)
    plain = to_plain(record)(value)
    given = {name: each for name, each in plain.items() if each not in (None, (), {})}
    # As JSON: tuples become lists, enums strings.
    return {"name": record.__name__, "payload": json.loads(json.dumps(given, default=partial(str)))}


if __name__ == "__main__":
    FILE.write_text(page(), encoding="utf-8")
