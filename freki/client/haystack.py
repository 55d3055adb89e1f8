"""Component for Haystack 2: `pip install 'freki-client[haystack]'`."""

import asyncio
import threading
from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.utils import Secret

from freki.client.blocking import BlockingClient
from freki.client.broker import Broker
from freki.client.hits import Asks, hits_of, metadata_of


@component
class FrekiRetriever:
    """Passages of Freki for a query, best first.

    ```python
    pipeline.add_component("retriever", FrekiRetriever({"bootstrap": "kafka:9092"}, tenant="hr"))
    ```
    """

    def __init__(
        self,
        broker: dict[str, Any] | None = None,
        *,
        tenant: str = "default",
        fields: dict[str, Any] | None = None,
        token: Secret | None = None,
    ) -> None:
        """Create a component.

        broker: fields of `Broker`; those for TLS and SASL must be values that YAML has where pipelines are saved.
        fields: of ContextQuery, for each query. token: of who asks, where the workers demand one.
        """
        self.broker = broker or {}
        self.tenant = tenant
        self.fields = fields or {}
        self.token = token
        self._client: Asks | None = None
        self._opened: BlockingClient | None = None
        self._opening = threading.Lock()

    def warm_up(self) -> None:
        """Connect, unless it is done; queries of several threads share the connection."""
        with self._opening:
            if self._client is None:
                token = self.token.resolve_value if self.token is not None else None
                client = BlockingClient(Broker(**self.broker), tenant=self.tenant, token=token)
                self._client = self._opened = client.__enter__()

    def close(self) -> None:
        """Disconnect."""
        with self._opening:
            if self._opened is not None:
                self._opened.__exit__(None, None, None)
            self._client = self._opened = None

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, top_k: int | None = None, fields: dict[str, Any] | None = None
    ) -> dict[str, list[Document]]:
        """Return the passages. fields: of ContextQuery, such as `principals`; they win over those of the component."""
        self.warm_up()
        asked = {**self.fields, **(fields or {}), **({} if top_k is None else {"top_k": top_k})}
        result = self._asks().ask(query, **asked)
        return {
            "documents": [
                Document(id=hit.chunk_id, content=hit.text, meta=metadata_of(hit, result), score=hit.score)
                for hit in hits_of(result)
            ]
        }

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, top_k: int | None = None, fields: dict[str, Any] | None = None
    ) -> dict[str, list[Document]]:
        """Return the passages, as `run` does."""
        # The client has an event loop of its own.
        return await asyncio.to_thread(self.run, query, top_k, fields)

    def to_dict(self) -> dict[str, Any]:
        """Return the component as saved pipelines have it; the token only by the name of its variable."""
        token = None if self.token is None else self.token.to_dict()
        saved: dict[str, Any] = default_to_dict(
            self, broker=self.broker, tenant=self.tenant, fields=self.fields, token=token
        )
        return saved

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "FrekiRetriever":
        """Return the component of a saved pipeline."""
        token = data["init_parameters"].get("token")
        data["init_parameters"]["token"] = None if token is None else Secret.from_dict(token)
        made: FrekiRetriever = default_from_dict(cls, data)
        return made

    def _asks(self) -> Asks:
        if self._client is None:
            raise RuntimeError("warm_up connects")
        return self._client
