"""Embedders behind an address.

interfaces  requests and answers of OpenAI, text-embeddings-inference, Cohere and Ollama
service     calls of one or several addresses, with retries
embedder    the embedder of the settings
"""

from freki.infra.models.remote.embedder import RemoteEmbedder

__all__ = ["RemoteEmbedder"]
