"""Retriever for LlamaIndex: `pip install 'freki-client[llamaindex]'`."""

import asyncio
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from freki.client.hits import Asks, blocking, hits_of, metadata_of
from freki.schemas import ContextHit, ContextResult


class FrekiRetriever(BaseRetriever):
    """Passages of Freki for a query, best first.

    ```python
    with BlockingClient(broker, tenant="hr") as client:
        FrekiRetriever(client, principals=["ada", "hr"], top_k=5).retrieve("Wer genehmigt Urlaub?")
    ```
    """

    def __init__(self, client: Asks, **fields: Any) -> None:  # noqa: ANN401 - checked by the client
        """Create a retriever. client: open; fields: of ContextQuery, for each query."""
        self._client: Asks = blocking(client)
        self._fields = fields
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        result = self._client.ask(query_bundle.query_str, **self._fields)
        return [NodeWithScore(node=_node_of(hit, result), score=hit.score) for hit in hits_of(result)]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        # The client has an event loop of its own.
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _node_of(hit: ContextHit, result: ContextResult) -> TextNode:
    metadata = metadata_of(hit, result)
    # LlamaIndex writes the metadata before the text in each prompt, unless it is excluded.
    heading = {"heading_path"} if hit.heading_path else set()
    return TextNode(
        id_=hit.chunk_id,
        text=hit.text,
        metadata=metadata,
        excluded_llm_metadata_keys=sorted(metadata.keys() - heading - {"citation"}),
        excluded_embed_metadata_keys=sorted(metadata.keys() - heading),
        start_char_idx=hit.start,
        end_char_idx=hit.end,
    )
