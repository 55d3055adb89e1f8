"""A section in another language than its document's has its own, for the terms of BM25 and for filters."""

from freki.infra.models.fake import FakeEmbedder
from freki.infra.settings import ChunkingSettings
from freki.schemas import ChunkKind, DocumentChange, DocumentId, Operation, TenantId, Timestamp
from freki.streams.ingest.outline import Outline, Outliner, OutlineRules
from freki.streams.wire.rules import limits_of
from tests.parsing import parse_here

GERMAN = "Der Vermieter hat die Mietsache dem Mieter in einem geeigneten Zustand zu überlassen und zu erhalten. " * 3
ENGLISH = "The landlord has to hand over the flat in a suitable state and to keep it in this state all the time. " * 3


async def outlined(content: str, *, language: str | None = None) -> Outline:
    change = DocumentChange(
        tenant=TenantId("t"),
        document_id=DocumentId("a.md"),
        operation=Operation.UPSERT,
        version=1,
        occurred_at=Timestamp(0),
        media_type="text/markdown",
        language=language,
        principals=("everyone",),
        content=content,
    )
    outliner = Outliner(
        OutlineRules(limits=limits_of(ChunkingSettings())), parse=parse_here, count_tokens=FakeEmbedder().count_tokens
    )
    return await outliner(change, content)


def languages(outline: Outline) -> list[str]:
    return [chunk.language for chunk in outline.chunks if chunk.kind is not ChunkKind.SUMMARY]


async def test_sections_have_their_languages() -> None:
    outline = await outlined(f"# Pflichten\n\n{GERMAN}\n\n{GERMAN}\n\n# Summary\n\n{ENGLISH}\n")

    assert outline.language == "de"
    assert languages(outline) == ["", "en"]


async def test_also_where_the_producer_states_that_of_the_document() -> None:
    assert languages(await outlined(f"# Pflichten\n\n{GERMAN}\n\n# Summary\n\n{ENGLISH}", language="en")) == ["de", ""]


async def test_short_text_and_code_have_that_of_their_document() -> None:
    code = "```\n" + "def landlord_has_to_hand_over_the_flat_in_a_suitable_state(): pass\n" * 5 + "```\n"

    outline = await outlined(
        f"# A\n\n{GERMAN}\n\n{GERMAN}\n\n# B\n\nNot long enough, but surely English.\n\n# C\n\n{code}"
    )

    assert set(languages(outline)) == {""}
