"""What answers say of somebody's documents, for whom they are about."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from freki.schemas import (
    ChunkId,
    ContextResult,
    DocumentChunk,
    DocumentId,
    DocumentReport,
    Duplicate,
    ListedDocument,
    TenantId,
)
from freki.schemas.avro import Codec, UndecodableError
from freki.streams.wire.erasing.access import answer_in, is_asked_of, said_of
from tests.strategies import records
from tests.unit.evaluations import hit, result
from tests.unit.test_rights_model import said
from tests.unit.test_validate_query import query

OWN, OTHER = DocumentId("own"), DocumentId("other")


@given(told=records(ContextResult) | records(DocumentReport), tenant=st.text(max_size=3).map(TenantId))
def test_what_another_tenant_was_told_is_not_told_also_of_a_document_of_the_same_id(
    told: ContextResult | DocumentReport, tenant: TenantId
) -> None:
    assume(tenant != told.tenant)
    ids = {each.document_id for each in (told.hits if isinstance(told, ContextResult) else told.documents)}

    assert said_of(told, tenant, ids) is None


def test_of_an_answer_the_hits_and_further_chunks_of_the_documents_are_told() -> None:
    asked = query(text="Wer?")
    told = result(asked, [hit(1, OWN, 1.0), hit(2, OTHER, 0.5)])

    own = said_of(told, asked.tenant, [OWN])

    assert own is not None
    assert [each["document_id"] for each in own["hits"]] == [OWN]
    assert own["expansions"] == []


def test_of_the_same_passage_in_several_documents_only_the_own_places_are_told() -> None:
    asked = query(text="Wer?")
    places = tuple(Duplicate(document_id=name, version=1, chunk_id=ChunkId(name)) for name in (OWN, OTHER))
    told = result(asked, [replace(hit(rank, name, 1.0), duplicates=places) for rank, name in ((1, OWN), (2, OTHER))])

    own = said_of(told, asked.tenant, [OWN])

    assert own is not None
    assert [[each["document_id"] for each in one["duplicates"]] for one in own["hits"]] == [[OWN]]
    assert [each["document_id"] for each in own["duplicates"]] == [OWN]


def test_a_question_is_told_with_one_of_the_words_to_their_tenant_only_and_no_word_is_in_all_of_them() -> None:
    asked = query(text="Was ist mit Frau Beispiel?")

    assert is_asked_of(asked, asked.tenant, ["4711", "Beispiel"])
    assert not is_asked_of(asked, TenantId("another"), ["Beispiel"])
    assert not is_asked_of(asked, asked.tenant, ["4711"])
    # The value of an attribute may be empty, and each text has that.
    assert not is_asked_of(asked, asked.tenant, ["", " "])


@settings(max_examples=20)
@given(told=records(ContextResult) | records(DocumentReport))
def test_a_reply_topic_has_answers_of_both_kinds(told: ContextResult | DocumentReport) -> None:
    frame = Codec(type(told)).encode(told)

    assert answer_in(frame, ContextResult) == answer_in(frame, DocumentReport) == told


def test_what_is_no_answer_is_told_as_a_record_of_its_topic() -> None:
    with pytest.raises(UndecodableError, match="records of this topic are ContextResult"):
        answer_in(b"neither", ContextResult)


@given(listed=records(ListedDocument), chunks=st.lists(records(DocumentChunk), min_size=1, max_size=2))
def test_of_a_report_the_chunks_are_told_only_with_their_document(
    listed: ListedDocument, chunks: Sequence[DocumentChunk]
) -> None:
    # The report of another document may name ours, in its source for example.
    of_other = replace(said(""), documents=(replace(listed, document_id=OTHER, source_uri=OWN),), chunks=tuple(chunks))
    of_own = replace(of_other, documents=(replace(listed, document_id=OWN),))

    other, own = (said_of(each, each.tenant, [OWN]) for each in (of_other, of_own))

    assert other is not None
    assert (other["listed"], other["chunks"]) == ([], [])
    assert own is not None
    assert [each["text"] for each in own["chunks"]] == [each.text for each in chunks]
