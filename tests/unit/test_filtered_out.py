"""What is said and given where little or nothing is found."""

import pytest

from freki.schemas import Confidence, ContextResult, DocumentId, Filter, FilterOperator, NoticeKind, ResultStatus
from freki.schemas.errors import Unavailable
from tests.unit.questions import TEXTS, Broken, ask, kinds, retriever
from tests.unit.revisions import World, revision

NOWHERE = (Filter(field="document_id", operator=FilterOperator.EQ, values=("nowhere",)),)
FURTHER = "Ohne die Filter kämen weitere Dokumente in Frage"


def notices(result: ContextResult) -> list[tuple[str, NoticeKind, str]]:
    return [(notice.stage, notice.kind, notice.message) for notice in result.notices]


@pytest.fixture
async def world() -> World:
    made = World()
    await made.feed(revision("a", 1, [*TEXTS, "ein ganz anderer satz über wetter"]))
    return made


async def down() -> None:
    raise Unavailable("the search is down")


async def test_where_nothing_passes_the_threshold_the_nearest_are_given_and_called_that(world: World) -> None:
    result = await ask(retriever(world), min_score=5.0)

    assert [hit.rank for hit in result.hits] == [1, 2, 3]
    assert result.hits[0].text == TEXTS[2]
    assert result.status is ResultStatus.DEGRADED
    assert ("threshold", NoticeKind.DEGRADED) in kinds(result)
    assert "Keiner der Treffer passt sicher zur Frage; sie beantworten sie vielleicht nicht." in result.advice
    assert "Senken Sie die verlangte Mindestbewertung (5)." in result.advice


async def test_hits_that_are_not_similar_enough_are_left_out(world: World) -> None:
    result = await ask(retriever(world), "die gebühr beträgt zehn euro", min_similarity=0.9)

    assert [hit.text for hit in result.hits] == [TEXTS[1]]
    assert ("threshold", NoticeKind.DROPPED) in kinds(result)


async def test_a_question_on_something_else_is_told_that_the_hits_may_not_answer_it(world: World) -> None:
    beside = await ask(retriever(world), "pinguin pinguin pinguin", top_k=1)
    fitting = await ask(retriever(world), TEXTS[0], top_k=1)

    assert len(beside.hits) == 1
    assert beside.confidence is Confidence.NONE
    assert "seems to answer this" in beside.advice[0]
    assert fitting.advice == ()


async def test_a_hit_that_holds_what_is_quoted_is_not_called_merely_the_nearest(world: World) -> None:
    apart = "pinguin pinguin pinguin pinguin pinguin pinguin"

    quoted = await ask(retriever(world), f"{apart} „zehn euro“", top_k=1)
    ignored = await ask(retriever(world), f"{apart} „zehn euro“", top_k=1, exact=False)
    unmet = await ask(retriever(world), f"{apart} „elf euro“", top_k=1)

    assert [hit.text for hit in quoted.hits] == [TEXTS[1]]
    assert quoted.confidence is Confidence.LOW
    assert ignored.confidence is unmet.confidence is Confidence.NONE


async def test_a_hit_that_has_the_designations_of_the_question_is_not_called_merely_the_nearest(world: World) -> None:
    apart = "pinguin pinguin pinguin pinguin pinguin pinguin"
    await world.feed(revision("b", 1, ["E05: water inlet closed, see 5.2", "E07 and KX-200: call the service"]))

    there, both, parted, year, bare = [
        await ask(retriever(world), f"{apart} {named}", top_k=5)
        for named in ("E05", "E07 KX-200", "E05 KX-200", "1997", "5.2")
    ]

    assert there.confidence is both.confidence is Confidence.LOW
    assert parted.confidence is year.confidence is bare.confidence is Confidence.NONE


async def test_where_no_hit_holds_what_is_quoted_none_fits_with_certainty(world: World) -> None:
    unmet = await ask(retriever(world), "die gebühr beträgt „elf euro“")
    ignored = await ask(retriever(world), "die gebühr beträgt „elf euro“", exact=False)

    assert unmet.confidence is Confidence.LOW
    assert "Kein Treffer enthält, was die Frage nennt: „elf euro“." in unmet.advice
    assert ignored.confidence is Confidence.HIGH


async def test_where_no_hit_names_the_norm_none_fits_with_certainty(world: World) -> None:
    await world.feed(revision("b", 1, ["die §§ 5 bis 7 regeln die miete", "nach § 12 ist die miete fällig"]))

    absent = await ask(retriever(world), "nach § 4711 ist die miete fällig")
    partly = await ask(retriever(world), "nach § 12 und nach § 4711 ist die miete fällig")
    other = await ask(retriever(world), "paragraf 6 regelt die miete, die §§ 5 bis 7")

    assert ("exact", NoticeKind.UNMET, "no hit names § 4711") in notices(absent)
    assert absent.confidence is Confidence.LOW
    assert absent.status is ResultStatus.COMPLETE
    assert absent.advice[:2] == (
        "Keiner der Treffer passt sicher zur Frage; sie beantworten sie vielleicht nicht.",
        "Kein Treffer enthält, was die Frage nennt: § 4711.",
    )
    assert ("exact", NoticeKind.UNMET, "no hit names § 4711") in notices(partly)
    assert partly.confidence is other.confidence is Confidence.HIGH
    assert notices(other) == []


async def test_where_no_hit_has_the_whole_of_a_designation_none_fits_with_certainty(world: World) -> None:
    await world.feed(revision("b", 1, ["die verordnung 2016/424 regelt die miete", "pep: 8 regelt die miete"]))

    absent = await ask(retriever(world), "die verordnung 2016/679 regelt die miete")
    part = await ask(retriever(world), "PEP 257 regelt die miete")
    whole = await ask(retriever(world), "PEP 8 regelt die miete")
    letter = await ask(
        retriever(world), "pep: 8 regelt die miete " * 8 + "Kundennummer 123456, Fehler E42 am 3.10.1990"
    )

    assert notices(absent) == [("exact", NoticeKind.UNMET, "no hit names 2016/679")]
    assert notices(part) == [("exact", NoticeKind.UNMET, "no hit names PEP 257")]
    assert absent.confidence is part.confidence is Confidence.LOW
    assert notices(whole) == notices(letter) == []
    assert whole.confidence is letter.confidence is Confidence.HIGH


@pytest.mark.parametrize("text", ["?", "§", "„“", "!!! … ???", "x" * 5000])
async def test_nothing_answers_a_question_without_words(world: World, text: str) -> None:
    result = await ask(retriever(world), text)

    told = ("analyse", NoticeKind.UNMET, "the query has no word and no number to search for")
    assert result.confidence in {Confidence.NONE, Confidence.UNKNOWN}
    assert told in notices(result)
    assert result.confidence is Confidence.NONE or not result.hits


async def test_signs_that_are_quoted_can_be_found(world: World) -> None:
    await world.feed(revision("b", 1, ["das zeichen => heißt daraus folgt"]))

    result = await ask(retriever(world), "„=>“")

    assert [hit.text for hit in result.hits] == ["das zeichen => heißt daraus folgt"]
    assert result.confidence is Confidence.LOW
    assert [kind for kind in kinds(result) if kind[0] == "analyse"] == []


async def test_filters_that_left_nothing_are_told_with_how_many_documents_they_excluded(world: World) -> None:
    await world.feed(revision("b", 1, ["das amt entscheidet auch über widersprüche"]))

    result = await ask(retriever(world), filters=NOWHERE)

    assert (result.hits, result.status) == ((), ResultStatus.EMPTY)
    assert f"{FURTHER}: 2." in result.advice
    assert "Fragen Sie im Zweifel dort nach, woher die Dokumente kommen." in result.advice


@pytest.mark.parametrize(
    "text",
    [
        *(
            "Was regelt Ziffer 5.2 des Rahmenvertrags?",
            "Nr. 3 der Anlage 2",
            "Kapitel 2 bis 4",
            "§ 5 Abs. 2 BGB",
            "Teil B",
        ),
        *("E4711", "BGB", "„zehn euro“", "am 1.2.2024", "Vergleiche Miete und Pacht", "?"),
    ],
)
async def test_where_nothing_is_left_an_answer_says_so_whatever_is_asked(world: World, text: str) -> None:
    result = await ask(retriever(world), text, filters=NOWHERE, explain=True)

    assert (result.hits, result.status) == ((), ResultStatus.EMPTY)


async def test_what_meets_the_filters_is_not_counted(world: World) -> None:
    await world.feed(revision("b", 1, ["das amt entscheidet auch über widersprüche"]))
    only = (Filter(field="document_id", operator=FilterOperator.EQ, values=("a",)),)

    result = await ask(retriever(world), filters=only, top_k=10)

    assert {hit.document_id for hit in result.hits} == {DocumentId("a")}
    assert f"{FURTHER}: 1." in result.advice


async def test_what_may_not_be_read_is_neither_found_nor_counted(world: World) -> None:
    await world.feed(revision("secret", 1, ["über den antrag entscheidet der rat"], principals=("board",)))
    await world.feed(revision("gone", 1, ["über den antrag entscheidet niemand"]))
    await world.feed(revision("gone", 2, None))

    outside = await ask(retriever(world), filters=NOWHERE)
    inside = await ask(retriever(world), filters=NOWHERE, principals=("board",))

    assert f"{FURTHER}: 1." in outside.advice
    assert f"{FURTHER}: 2." in inside.advice


async def test_nothing_is_counted_without_filters_or_where_enough_was_found(world: World) -> None:
    fits = (Filter(field="document_id", operator=FilterOperator.EQ, values=("a",)),)

    without = await ask(retriever(world), top_k=10)
    enough = await ask(retriever(world), top_k=1, filters=fits)

    stages = {stage.stage for result in (without, enough) for stage in result.stages}
    assert "look beyond" not in stages


async def test_nothing_is_counted_where_the_search_by_vectors_failed_that_the_count_compares_with(
    world: World,
) -> None:
    await world.feed(revision("b", 1, ["das amt prüft unterlagen"]))
    await world.feed(revision("c", 1, ["etwas anderes"]))
    both = (Filter(field="document_id", operator=FilterOperator.IN, values=("b", "c")),)
    first_fails = Broken(world.index, before={"dense": down})

    result = await ask(retriever(world, first_fails), "Was prüft das Amt?", filters=both)

    assert {hit.document_id for hit in result.hits} == {"b"}
    assert not any(line.startswith(FURTHER) for line in result.advice)


async def test_a_count_that_fails_costs_no_hit(world: World) -> None:
    fits = (Filter(field="document_id", operator=FilterOperator.EQ, values=("a",)),)

    result = await ask(retriever(world, Broken(world.index, fails_from={"dense": 2})), filters=fits, expand_documents=0)

    assert len(result.hits) == 4
    assert ("look beyond", NoticeKind.DEGRADED) in kinds(result)


async def test_where_all_documents_meet_the_filters_none_is_counted_however_queries_are_centred(world: World) -> None:
    for number in range(40):
        await world.feed(revision(f"b{number}", 1, [f"was {number} ist wie die gebühr {number} wird"]))
    every = (Filter(field="language", operator=FilterOperator.EQ, values=("de",)),)
    asked = retriever(world)
    await asked.warm_up()

    results = [
        await ask(asked, text, filters=every, candidates=3, top_k=20)
        for text in ("Was ist die gebühr?", "Wie wird die gebühr?", "Wer ist das amt?")
    ]

    assert [line for each in results for line in each.advice if line.startswith(FURTHER)] == []
