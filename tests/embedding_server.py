"""Embedding services of tests, which embed by the fake embedder and speak the interfaces of real ones."""

import json
import re
from collections.abc import Mapping
from typing import Any

from freki.infra.models.fake import bags_of
from freki.infra.settings import ModelSettings
from tests.scripted_server import Reply, ScriptedServer

DIM = 64
TOKENS = re.compile(r"\w+")


class EmbeddingServer(ScriptedServer):
    """Answers every interface; `replies` come first, one for each request."""

    def __init__(self, *, scale: float = 3.0, rotated: bool = False) -> None:
        """Create a server; scale: length of its vectors, rotated: they are those of another model."""
        super().__init__(self._answer)
        self.replies: list[Reply] = []
        self._scale = scale
        self._rotated = rotated

    def _answer(self, body: dict[str, Any]) -> Reply:
        if self.replies:
            return self.replies.pop(0)
        texts = body.get("input") or body.get("inputs") or body.get("texts") or []
        if any(not text.strip() for text in texts):
            return Reply({"error": "input must not be empty"}, status=400)
        vectors = self._scale * bags_of(texts, DIM)
        rows = (vectors[:, ::-1] if self._rotated else vectors).tolist()
        tokens = sum(len(TOKENS.findall(text)) for text in texts)
        return Reply(self._formed(body, rows, tokens))

    @staticmethod
    def _formed(body: Mapping[str, Any], rows: list[list[float]], tokens: int) -> Any:
        if "inputs" in body:
            return rows
        if "texts" in body:
            assert body["input_type"] in {"search_query", "search_document"}
            return {"embeddings": {"float": rows}, "meta": {"billed_units": {"input_tokens": tokens}}}
        if "encoding_format" in body:
            # The order is not promised.
            data = [{"index": index, "embedding": row} for index, row in enumerate(rows)][::-1]
            return {"data": data, "usage": {"prompt_tokens": tokens, "total_tokens": tokens}}
        return {"embeddings": rows, "prompt_eval_count": tokens}


def remote_settings(server: EmbeddingServer, **changes: Any) -> ModelSettings:
    """Give the settings of a server."""
    remote = {"url": server.url, "model": "bags", "dim": DIM, "timeout_s": 10.0, **changes}
    return ModelSettings.model_validate({"embedder": "remote", "remote": remote})


def texts_of(server: EmbeddingServer) -> list[str]:
    """Return all texts that a server was asked for, in order."""
    return [text for body in server.bodies for name in ("input", "inputs", "texts") for text in body.get(name, [])]


def error(status: int, **headers: str) -> Reply:
    """Give a refusal."""
    return Reply(json.dumps({"error": "no"}).encode(), status=status, headers=headers)
