"""What a document says of itself stands below what its producer says, and fits the store."""

from collections.abc import Mapping

import pytest

from freki.infra.models.fake import FakeEmbedder
from freki.infra.settings import ChunkingSettings
from freki.operators.validate_change import validate_change
from freki.schemas import DocumentChange, DocumentId, Operation, TenantId, Timestamp
from freki.schemas.stored_attributes import MAX_ATTRIBUTES_BYTES, attributes_bytes
from freki.streams.ingest.outline import MAX_TITLE_CHARS, Outline, Outliner, OutlineRules
from freki.streams.wire.rules import limits_of
from tests.parsing import parse_here

CONTENT = "---\nauthor: Ada\nsubject: Urlaub\n---\n\n# Urlaub\n"


async def outlined(given: Mapping[str, str], content: str = CONTENT, *, document: str = "a.md") -> Outline:
    change = DocumentChange(
        tenant=TenantId("t"),
        document_id=DocumentId(document),
        operation=Operation.UPSERT,
        version=1,
        occurred_at=Timestamp(0),
        attributes=given,
        content=content,
    )
    validate_change(change, key=f"t/{document}")
    rules = OutlineRules(limits=limits_of(ChunkingSettings()))
    outliner = Outliner(rules, parse=parse_here, count_tokens=FakeEmbedder().count_tokens)
    return await outliner(change, content)


async def test_those_of_the_producer_take_precedence() -> None:
    assert (await outlined({"author": "HR"})).attributes == {"author": "HR", "subject": "Urlaub"}


async def test_those_that_the_store_does_not_take_besides_are_left_out() -> None:
    room = attributes_bytes({"author": "Ada"})
    text = "x" * (MAX_ATTRIBUTES_BYTES - room - attributes_bytes({"text": ""}))
    given = {"text": text}

    assert (await outlined(given)).attributes == {"author": "Ada", **given}
    assert (await outlined({"text": f"{text}x"})).attributes == {"text": f"{text}x"}
    assert attributes_bytes({"author": "Ada", **given}) == MAX_ATTRIBUTES_BYTES


async def test_a_title_of_any_length_becomes_a_name() -> None:
    outline = await outlined({}, f"---\ntitle: {'€' * 100_000}\n---\n\nText\n")

    assert outline.name == "€" * (MAX_TITLE_CHARS - 1) + "…"


@pytest.mark.parametrize(
    ("document", "name"),
    [
        ("handbook/leave.md", "leave.md"),
        ("https://example.org/docs/", "docs"),
        ("https://example.org/", "example.org"),
        ("https://example.org/docs/ /", "docs"),
        ("//", "//"),
    ],
)
async def test_a_document_without_a_title_has_the_last_part_of_its_id_that_is_visible_as_name(
    document: str, name: str
) -> None:
    assert (await outlined({}, "Text\n", document=document)).name == name
