from dataclasses import replace
from io import StringIO
from itertools import count

import pytest
from rich.console import Console
from rich.text import Text

from freki.cli.show import show_error, show_result
from freki.operators.age import UNKNOWN_AGE, age_ms
from freki.schemas import (
    ChunkKind,
    ContextPart,
    ContextQuery,
    ContextResult,
    DocumentId,
    Notice,
    NoticeKind,
    QueryId,
    RequestKind,
    Timestamp,
)
from tests.unit.questions import ask, now, retriever
from tests.unit.revisions import TENANT, World, revision

GERMAN, ENGLISH = "Dazu wurde nichts gefunden.", "Nothing was found on this."


def shown(result: ContextResult, question: str = "?", *, verbose: bool = False) -> str:
    file = StringIO()
    show_result(Console(file=file, width=200), result, question=question, verbose=verbose)
    return file.getvalue()


@pytest.mark.parametrize(
    ("question", "said"), [("Was kostet das Freibad?", GERMAN), ("What does the swimming pool cost?", ENGLISH)]
)
async def test_an_empty_answer_says_so_once_and_in_the_language_of_the_question(question: str, said: str) -> None:
    text = shown(await ask(retriever(World()), question))

    assert said in text
    assert sum(text.count(each) for each in (GERMAN, ENGLISH, "Nothing was found.")) == 1


async def test_an_age_is_shown_where_a_time_is_known() -> None:
    world, day_ms = World(), 86_400_000
    known, counter = revision("a", 7, ["alpha"], occurred_at=Timestamp(0)), revision("b", 8, ["beta"])
    await world.feed([*known, *counter])
    answer = await ask(retriever(world), "alpha beta")
    times = {"a": Timestamp(1_600_000_000_000), "b": Timestamp(8)}
    at = Timestamp(times["a"] + 3 * day_ms)

    hits = tuple(replace(hit, age_ms=age_ms(times[hit.document_id], at)) for hit in answer.hits)
    text = shown(replace(answer, hits=hits))

    assert {hit.document_id: hit.age_ms for hit in hits} == {"a": 3 * day_ms, "b": UNKNOWN_AGE}
    assert [line.count("old") for line in text.splitlines() if "characters" in line] in ([1, 0], [0, 1])
    assert "3 days old" in text


async def test_an_answer_has_no_age_for_a_document_whose_time_is_a_counter() -> None:
    world = World()
    await world.feed(revision("a", 7, ["alpha"]))

    answer = await ask(retriever(world), "alpha")

    assert [hit.age_ms for hit in answer.hits] == [UNKNOWN_AGE]
    assert answer.freshness.indexed_through is None
    assert " old" not in shown(answer)


async def test_a_document_with_a_date_of_the_future_does_not_make_the_index_true_until_then() -> None:
    world = World()
    past, future = Timestamp(1_600_000_000_000), Timestamp(13_569_465_600_000)
    world.ticks = count(past + 1)
    await world.feed(revision("a", 7, ["alpha"], occurred_at=past))
    await world.feed(revision("b", 7, ["alpha beta"], occurred_at=future))

    answer = await ask(retriever(world), "alpha")

    assert {hit.occurred_at for hit in answer.hits} == {past, future}
    assert answer.freshness.indexed_through == past


async def test_times_of_a_machine_whose_clock_is_ahead_are_never_below_0() -> None:
    world = World()
    await world.feed(revision("a", 7, ["alpha"]))
    answer = await ask(retriever(world), "alpha")
    ahead = Timestamp(answer.answered_at + 86_400_000)
    answer = replace(answer, asked_at=ahead, freshness=replace(answer.freshness, last_commit_at=ahead))

    text = shown(answer, verbose=True)

    assert "0 ms from query to answer" in text
    assert "last change 0.0 s ago" in text
    assert "-" not in text.split("complete")[1]


async def test_that_no_chunk_of_a_name_was_found_is_said_too() -> None:
    result = await ask(retriever(World()), "a", kind=RequestKind.CHUNK_READ, document_ids=(DocumentId("a"),))

    assert "Nothing was found." in shown(result)


async def test_a_question_that_was_refused_is_not_called_one_without_an_answer() -> None:
    query = ContextQuery(query_id=QueryId("q"), tenant=TENANT, text="", asked_at=now())
    notice = Notice(stage="validate", kind=NoticeKind.REJECTED, message="text is empty")

    text = shown(retriever(World()).refusal(query, notice, trace_id=""))

    assert "text is empty" in text
    assert "found" not in text


async def test_doubt_stands_above_the_hits_and_what_was_left_out_below() -> None:
    world = World()
    await world.feed(revision("a", 7, ["alpha"]))
    answer = await ask(retriever(world), "alpha")
    notices = (
        Notice(stage="rerank", kind=NoticeKind.DEGRADED, message="no reranker"),
        Notice(stage="assemble", kind=NoticeKind.DROPPED, message="over the budget"),
    )

    text = shown(replace(answer, notices=notices, advice=("Ask otherwise.",)))

    places = [text.index(each) for each in ("Ask otherwise.", "no reranker", "[QUELLE-1", "over the budget")]
    assert places == sorted(places)


async def test_what_no_hit_names_is_said_once_in_the_language_of_the_question() -> None:
    world = World()
    await world.feed(revision("a", 7, ["Die Gebühr beträgt zehn Euro."], language="de"))

    text = shown(await ask(retriever(world), "Wie hoch ist die Gebühr bei Kubernetes?", language="de"))

    assert "was die Frage nennt: Kubernetes" in text
    assert text.count("Kubernetes") == 1


async def test_scores_and_steps_are_shown_on_request_only() -> None:
    world = World()
    await world.feed(revision("a", 7, ["alpha"]))
    answer = await ask(retriever(world), "alpha")
    file = StringIO()
    show_result(Console(file=file, width=200), answer, question="alpha", verbose=True)

    for each in ("BM25", "version 7", "reranker", "█"):
        assert each in file.getvalue()
        assert each not in shown(answer)


async def test_a_whole_document_around_a_hit_is_shown_on_request_only() -> None:
    world = World()
    await world.feed(revision("a", 7, ["alpha"]))
    answer = await ask(retriever(world), "alpha")
    around = ContextPart(chunk_id=None, path="0", text="\n".join(f"line {n}" for n in range(1000)), start=0, end=9)
    hit, file = replace(answer.hits[0], parent=around), StringIO()
    answer = replace(answer, hits=(hit, *answer.hits[1:]))
    show_result(Console(file=file, width=200), answer, question="alpha", verbose=True)

    assert "line 999" in file.getvalue()
    assert "line 999" not in shown(answer)
    assert f"as a whole, {len(around.text):,} characters: --verbose shows it" in shown(answer)


async def test_prose_is_broken_by_the_terminal_alone_and_items_and_code_as_in_their_source() -> None:
    world = World()
    await world.feed(revision("a", 7, ["alpha"]))
    answer = await ask(retriever(world), "alpha")
    wrapped = "Durch den Mietvertrag wird der Vermieter verpflichtet, dem Mieter\nden Gebrauch zu gewähren."
    items = "Der Mieter ist verpflichtet, die folgenden Dinge zu bezahlen:\n1. die Miete\n- Strom\n(2) Wasser\n    code"
    address = "Stadt Oldenburg\nMarkt 1\n26122 Oldenburg"

    def text_of(text: str, kind: ChunkKind = ChunkKind.PROSE) -> str:
        return shown(replace(answer, hits=(replace(answer.hits[0], text=text, kind=kind, snippets=()),)))

    assert "verpflichtet, dem Mieter den Gebrauch" in text_of(wrapped)
    assert "verpflichtet, dem Mieter den Gebrauch" not in text_of(wrapped, ChunkKind.CODE)
    for each in ("│ 1. die", "│ - Strom", "│ (2) Wasser", "│     code"):
        assert each in text_of(items)
    for each in address.splitlines():
        assert f"│ {each}" in text_of(address)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_an_error_is_broken_between_words_and_only_in_a_terminal(is_terminal: bool) -> None:  # noqa: FBT001 - given by pytest
    file, message = (
        StringIO(),
        "is Kafka up at FREKI_KAFKA__BOOTSTRAP=127.0.0.1:9092, and does it speak PLAINTEXT there?",
    )
    show_error(Console(file=file, width=60, force_terminal=is_terminal, no_color=True), message)
    lines = Text.from_ansi(file.getvalue()).plain.splitlines()

    assert " ".join(line.strip() for line in lines) == f"freki: {message}"
    assert (len(lines) > 1) == is_terminal


async def test_no_id_is_cut_in_a_narrow_terminal() -> None:
    world, long = World(), "ordner/" * 20 + "a"
    await world.feed(revision(long, 7, ["alpha"]))
    answer = await ask(retriever(world), "alpha")
    file = StringIO()
    show_result(Console(file=file, width=80), answer, question="alpha")

    letters = "".join(line.strip("│ ") for line in file.getvalue().splitlines()).replace(" ", "")
    assert long in letters
    assert answer.hits[0].chunk_id in letters


async def test_what_stands_around_a_chunk_that_is_read_is_shown_with_it() -> None:
    world = World()
    await world.feed(revision("a", 7, ["alpha", "beta", "gamma"]))
    (hit,) = (await ask(retriever(world), "beta")).hits[:1]
    before, after = (ContextPart(chunk_id=None, path="0", start=0, end=5, text=text) for text in ("vorher", "nachher"))
    answer = replace(await ask(retriever(world), "beta"), hits=(replace(hit, before=(before,), after=(after,)),))
    file = StringIO()
    show_result(Console(file=file, width=80), answer, question="", whole=True)

    places = [file.getvalue().find(text) for text in ("vorher", hit.text, "nachher")]
    assert -1 not in places
    assert places == sorted(places)
    assert "nachher" not in shown(answer)
