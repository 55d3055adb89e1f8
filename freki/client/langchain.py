"""Retriever for LangChain: `pip install 'freki-client[langchain]'`."""

import asyncio
from typing import Annotated, Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import AfterValidator, ConfigDict, Field

from freki.client.hits import Asks, blocking, hits_of, metadata_of


class FrekiRetriever(BaseRetriever):
    """Passages of Freki for a query, best first.

    ```python
    with BlockingClient(broker, tenant="hr") as client:
        retriever = FrekiRetriever(client=client, fields={"top_k": 5})
        retriever.invoke("Wer genehmigt Urlaub?", principals=["ada", "hr"])
    ```
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    client: Annotated[Any, AfterValidator(blocking)] = Field(exclude=True, repr=False)
    """An open `BlockingClient`."""
    fields: dict[str, Any] = Field(default_factory=dict)
    """Fields of ContextQuery for each query; keywords of the call win."""

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 - LangChain passes it
        **fields: Any,  # noqa: ANN401 - checked by the client
    ) -> list[Document]:
        return self._found(query, fields)

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,  # noqa: ARG002 - as above
        **fields: Any,  # noqa: ANN401
    ) -> list[Document]:
        # The client has an event loop of its own.
        return await asyncio.to_thread(self._found, query, fields)

    def _found(self, query: str, fields: dict[str, Any]) -> list[Document]:
        client: Asks = self.client
        result = client.ask(query, **{**self.fields, **fields})
        return [
            Document(id=hit.chunk_id, page_content=hit.text, metadata=metadata_of(hit, result))
            for hit in hits_of(result)
        ]
