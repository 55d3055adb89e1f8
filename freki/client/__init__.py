"""Thin client of Freki: publish documents, wait for receipts, ask, follow receipts and answers.

Importing it loads neither models nor the code of workers; a Kafka library is loaded by the first connection. The same
modules are in the packages `freki` and `freki-client`: docs/client.md.
"""

from freki.client.aio import Client, Published
from freki.client.blocking import BlockingClient
from freki.client.broker import Broker
from freki.client.exchange import ClientClosed
from freki.client.serializers import Deserializer, Serializer
from freki.schemas import (
    EVERYONE,
    ClaimCheck,
    ContextHit,
    ContextQuery,
    ContextResult,
    DocumentChange,
    DocumentId,
    Filter,
    FilterOperator,
    IndexOutcome,
    Operation,
    OutcomeStatus,
    QueryId,
    RequestKind,
    ResultStatus,
    TenantId,
    Timestamp,
    VersionFloor,
)
from freki.schemas.errors import InfraError, Misconfigured, Rejected, Unavailable

__all__ = [
    "EVERYONE",
    "BlockingClient",
    "Broker",
    "ClaimCheck",
    "Client",
    "ClientClosed",
    "ContextHit",
    "ContextQuery",
    "ContextResult",
    "Deserializer",
    "DocumentChange",
    "DocumentId",
    "Filter",
    "FilterOperator",
    "IndexOutcome",
    "InfraError",
    "Misconfigured",
    "Operation",
    "OutcomeStatus",
    "Published",
    "QueryId",
    "Rejected",
    "RequestKind",
    "ResultStatus",
    "Serializer",
    "TenantId",
    "Timestamp",
    "Unavailable",
    "VersionFloor",
]
