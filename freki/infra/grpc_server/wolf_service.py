"""The service `freki.v1.Wolf`: prompts of Odin, answered with the documents that belong to them."""

from statistics import fmean

import grpc

from freki.client.hits import hits_of
from freki.infra.api.callers import Callers, tenant_of
from freki.infra.api.gateway import Gateway
from freki.infra.api.sizes import QuerySizes
from freki.infra.grpc_server.calls import Call, CallFailed, answered, unary
from freki.infra.grpc_server.freki_service import in_time
from freki.infra.grpc_server.unread import Unread
from freki.schemas import CitationStyle, ContextHit, ContextQuery, ContextResult, NoticeKind, QueryId, Timestamp
from freki.schemas.proto.freki.v1 import wolf_pb2 as proto

SERVICE = proto.DESCRIPTOR.services_by_name["Wolf"].full_name
_LEFT_OUT = {NoticeKind.DEGRADED, NoticeKind.SKIPPED}


class WolfService:
    """Answers calls by the gateway that all APIs share."""

    def __init__(self, gateway: Gateway, callers: Callers, *, tenant: str, sizes: QuerySizes, unread: Unread) -> None:
        """Create it; tenant: of calls without a token."""
        self._gateway = gateway
        self._callers = callers
        self._tenant = tenant
        self._sizes = sizes
        self._unread = unread

    def handlers(self) -> dict[str, grpc.RpcMethodHandler]:
        """Return the handler of each method."""
        caller, sizes, unread = self._callers.caller, self._sizes, self._unread
        asks, found = proto.WolfRequest, proto.WolfResponse
        return {"Enrich": unary(caller, self.enrich, asks, found, sizes=sizes, unread=unread)}

    async def enrich(self, request: proto.WolfRequest, call: Call) -> proto.WolfResponse:
        """Return the documents that belong to a prompt."""
        _check(request)
        language = request.metadata.language if request.metadata.HasField("language") else None
        query = ContextQuery(
            query_id=QueryId(""),
            tenant=tenant_of(call.caller, None, self._tenant),
            text=request.prompt,
            asked_at=Timestamp(0),
            language=language,
            citations=CitationStyle.DOCUMENT,
        )
        result = answered(await self._gateway.ask(in_time(query, call), token=call.caller.token))
        if not hits_of(result):
            # The contract wants at least one document in a context.
            raise CallFailed(
                grpc.StatusCode.NOT_FOUND,
                " ".join(["nothing was found, which does not mean that nothing exists.", *result.advice]),
                reason="NOTHING_FOUND",
                trace_id=result.trace_id,
            )
        return _response(request.request_id, result)


def _check(request: proto.WolfRequest) -> None:
    """Raise CallFailed for a request that breaks a rule of the contract; prompts are judged as all queries are."""
    if not request.request_id:
        raise CallFailed(
            grpc.StatusCode.INVALID_ARGUMENT, "request_id: it is empty; give a UUID, for example", reason="INVALID"
        )
    if request.model_type == proto.LLM:
        raise CallFailed(
            grpc.StatusCode.UNIMPLEMENTED,
            "model_type: Freki answers RAG; requests of type LLM are for another service",
            reason="MODEL_TYPE",
        )
    if request.model_type != proto.RAG:
        raise CallFailed(
            grpc.StatusCode.INVALID_ARGUMENT,
            f"model_type: {request.model_type} is neither RAG nor LLM",
            reason="INVALID",
        )


def _response(request_id: str, result: ContextResult) -> proto.WolfResponse:
    notices = [f"{each.stage}: {each.message}" for each in result.notices if each.kind in _LEFT_OUT]
    return proto.WolfResponse(
        request_id=request_id,
        model_type=proto.RAG,
        rag_context=proto.RAGContext(
            documents=[_document(hit) for hit in result.hits],
            retrieval_score=fmean(hit.score for hit in result.hits),
        ),
        metadata=proto.ResponseMetadata(timestamp=result.answered_at, error="; ".join(notices) or None),
    )


def _document(hit: ContextHit) -> proto.RetrievedDocument:
    metadata = {
        "name": hit.name,
        "version": str(hit.version),
        "chunk_id": hit.chunk_id,
        "start": str(hit.start),
        "end": str(hit.end),
        "path": hit.path,
        "heading_path": " > ".join(hit.heading_path),
        "language": hit.language,
        "citation": hit.citation,
    }
    if hit.source_uri is not None:
        metadata["source_uri"] = hit.source_uri
    if hit.first_page:
        metadata |= {"first_page": str(hit.first_page), "last_page": str(hit.last_page)}
    return proto.RetrievedDocument(
        document_id=hit.document_id, content=hit.text, relevance_score=hit.score, metadata=metadata
    )
