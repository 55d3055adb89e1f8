"""Freki with a language model, from a file to an answer; and on, when the model is gone."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from freki.infra.local.stack import LocalStack
from freki.infra.local.state import settings_for
from freki.infra.settings import Settings
from freki.operators.breadcrumb import writer_of, written_in
from freki.operators.identify import root_id
from freki.schemas import ChunkKind, DocumentId, IndexOutcome, LlmUse, OutcomeStatus, TenantId
from freki.schemas.index import IndexedChunk
from freki.streams.wire.connect import open_index
from freki.streams.wire.provision import apply_topics
from tests.acceptance.conftest import Children, Freki
from tests.acceptance.helpers import ask, publish, upsert
from tests.llm_server import LlmServer, an_llm_server, situates
from tests.scripted_server import Reply

TENANT = "genossenschaft"
SUBJECTS = ("Beitrag", "Stimmrecht", "Austritt", "Vorstand", "Kasse", "Fangbuch", "Schonzeit", "Gäste", "Boote", "Wehr")


@dataclass
class Situated:
    """A running stack, and the language model that it asks."""

    freki: Freki
    server: LlmServer

    async def rows(self, document: str) -> list[IndexedChunk]:
        """Read a document's chunk rows from the store."""
        key = root_id(TenantId(TENANT), DocumentId(document))
        async with open_index(self.freki.settings) as index:
            heads = (await index.rows_of([key]))[key]
            return [row for row, _ in (await index.fetch(sorted(head.row_id for head in heads))).values()]


@pytest.fixture
async def with_context(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Situated]:
    state = tmp_path_factory.mktemp("state")
    settings = Settings(local=Settings().local.elsewhere(state))
    children = Children()
    with an_llm_server() as server:
        environment = {
            "FREKI_LLM__URL": server.url,
            "FREKI_LLM__MODEL": "scripted",
            "FREKI_LLM__LEDGER": str(state / "llm-tokens"),
            "FREKI_CONTEXTS__LLM": "true",
            "FREKI_CONTEXTS__SUMMARIES": "true",
            "FREKI_CONTEXTS__DEFINITIONS": "true",
        }
        async with LocalStack(settings, report=children.report, prepare=apply_topics, environment=environment) as stack:
            yield Situated(Freki(settings_for(settings, stack.state), children), server)


def rules(part: str) -> str:
    """Write a document of ten sections and more than one call."""
    sections = [
        f"## {subject}\n\nDie Regel {part} zu {subject} gilt für alle Mitglieder der Fischereigenossenschaft, die am "
        f"Wehr fischen wollen, und wurde von der Versammlung mit großer Mehrheit beschlossen: {subject} {part}."
        for subject in SUBJECTS
    ]
    return f"# Satzung {part}\n\n" + "\n\n".join(sections)


def use(outcome: IndexOutcome) -> LlmUse:
    assert outcome.llm is not None
    return outcome.llm


async def test_a_language_model_situates_chunks_as_long_as_it_is_there_and_no_document_waits_for_it(
    with_context: Situated,
) -> None:
    freki, server = with_context.freki, with_context.server

    (outcome,) = await publish(freki, upsert(TENANT, "eins.md", rules("eins"), language="de"))
    calls = len(server.requests)
    (unchanged,) = await publish(freki, upsert(TENANT, "eins.md", rules("eins"), language="de", version=2))
    result = await ask(freki, TENANT, "Was gilt zum Stimmrecht?")

    assert (outcome.status, use(outcome).written, use(outcome).missing) == (OutcomeStatus.INDEXED, 11, 0)
    assert calls == 3  # twice five chunks, and the summary
    assert (unchanged.status, unchanged.embedded, use(unchanged).kept) == (OutcomeStatus.UNCHANGED, 0, 11)
    assert len(server.requests) == calls
    rows = await with_context.rows("eins.md")
    lines = {row.heading_path[-1]: written_in(row.context) for row in rows if row.kind is not ChunkKind.SUMMARY}
    assert lines == {
        subject: f"Diese Stelle der Satzung handelt von beschlossen: {subject} eins." for subject in SUBJECTS
    }
    assert all("Diese Stelle" not in row.text for row in rows)
    assert result.hits[0].text.startswith("Die Regel eins zu Stimmrecht gilt")
    assert "Diese Stelle" not in result.context

    names = [f"nach-{number}.md" for number in range(4)]
    server.script = _dies_after(server, calls=3)
    outcomes = await asyncio.wait_for(
        publish(freki, *(upsert(TENANT, name, rules(name), language="de") for name in names)), 60
    )
    later = await ask(freki, TENANT, "Was gilt zu Booten nach-3.md?")

    assert {each.status for each in outcomes} == {OutcomeStatus.INDEXED}
    assert sum(use(each).written for each in outcomes) < 44
    assert sum(use(each).missing for each in outcomes) > 22
    reasons = [use(each).reason for each in outcomes if use(each).missing]
    assert [each for each in reasons if "does not answer" not in each and "is left alone: " not in each] == []
    plain = [row for name in names for row in await with_context.rows(name) if not writer_of(row.context_key)]
    assert len(plain) == sum(use(each).missing for each in outcomes)
    assert any(hit.document_id == "nach-3.md" for hit in later.hits)


def _dies_after(server: LlmServer, *, calls: int) -> Any:
    left = calls

    def script(body: Mapping[str, Any]) -> Reply:
        nonlocal left
        left -= 1
        server.dead = left <= 0
        return situates(body)

    return script
