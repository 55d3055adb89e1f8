"""What the parts of a process would refuse at their start: settings of which each is valid by itself."""

from collections.abc import Callable, Iterator
from pathlib import Path

from freki.infra.api.certificate import open_certificate
from freki.infra.claims.store import ClaimStore
from freki.infra.kafka.connection import client_options
from freki.infra.keys import key_service
from freki.infra.llm.client import LlmClient
from freki.infra.models import check_choices, check_window
from freki.infra.registry import RegistryClient
from freki.infra.rerankers.remote import RemoteReranker
from freki.infra.rerankers.vertex import VertexReranker
from freki.infra.settings import Settings
from freki.infra.settings.reload import leaves
from freki.schemas.errors import Misconfigured
from freki.streams.wire.from_settings import allowed_reply_topics, analyser_of, profiles_of, thesaurus_of

_READ = ("_file", "cookies", "tokenizer")
"""Last parts of the names of settings of files that are read, not written."""
_READ_BY_PARTS = {(), ("kafka",), ("serve",)}
"""Sections of which no file is looked for: certificates are read with their keys; one outside sections is written."""


def refusals(settings: Settings) -> list[str]:
    """Return why parts would refuse the settings, as they say it themselves; no server is asked, no model loaded.

    Files that settings name are read or looked for, since one that is missing stops what needs it only later.
    """
    found = list(_unreadable(settings))
    for make in _parts(settings):
        try:
            make()
        except Misconfigured as error:
            found.append(str(error))
    return found


def _unreadable(settings: Settings) -> Iterator[str]:
    for variable, path in _files(settings):
        try:
            path.expanduser().open("rb").close()
        except OSError as error:
            yield f"{variable}={path} cannot be read: {error.strerror}; correct the path or the rights"


def _files(settings: Settings) -> Iterator[tuple[str, Path]]:
    """Yield the settings that name files which are read while a process runs, and by no part below."""
    for leaf in leaves(settings):
        if isinstance(leaf.value, Path) and leaf.path[-1].endswith(_READ) and leaf.path[:-1] not in _READ_BY_PARTS:
            yield leaf.variable, leaf.value
    if settings.auth.jwks is not None and "://" not in settings.auth.jwks:
        yield "FREKI_AUTH__JWKS", Path(settings.auth.jwks)


def _parts(settings: Settings) -> Iterator[Callable[[], object]]:
    yield lambda: client_options(settings.kafka)
    yield lambda: ClaimStore(settings.claims)
    yield lambda: key_service(settings.encryption)
    yield lambda: _check_models(settings)
    yield lambda: analyser_of(settings.lexical)
    yield lambda: allowed_reply_topics(settings)
    yield lambda: profiles_of(settings.retrieval)
    yield lambda: thesaurus_of(settings.retrieval)
    yield lambda: open_certificate(settings.serve)
    if settings.registry.url is not None:
        yield lambda: RegistryClient(settings.registry)
    if settings.remote_reranker.url is not None:
        yield lambda: RemoteReranker(settings.remote_reranker)
    if settings.vertex_reranker.project is not None:
        yield lambda: VertexReranker(settings.vertex_reranker)
    if settings.llm.url is not None or settings.contexts.llm or settings.contexts.summaries:
        yield lambda: LlmClient(settings.llm)


def _check_models(settings: Settings) -> None:
    check_choices(settings.models)
    written_chars = settings.contexts.max_chars if settings.contexts.llm else 0
    check_window(settings.models, max_tokens=settings.chunking.max_tokens, written_chars=written_chars)
