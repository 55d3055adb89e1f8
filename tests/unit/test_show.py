from io import StringIO

import pytest
from rich.console import Console

from freki.cli.show import show_result
from freki.schemas import ContextQuery, ContextResult, DocumentId, Notice, NoticeKind, QueryId, RequestKind
from tests.unit.questions import ask, now, retriever
from tests.unit.revisions import TENANT, World

GERMAN, ENGLISH = "Dazu wurde nichts gefunden.", "Nothing was found on this."


def shown(result: ContextResult, question: str = "?") -> str:
    file = StringIO()
    show_result(Console(file=file, width=200), result, question=question)
    return file.getvalue()


@pytest.mark.parametrize(
    ("question", "said"), [("Was kostet das Freibad?", GERMAN), ("What does the swimming pool cost?", ENGLISH)]
)
async def test_an_empty_answer_says_so_once_and_in_the_language_of_the_question(question: str, said: str) -> None:
    text = shown(await ask(retriever(World()), question))

    assert said in text
    assert sum(text.count(each) for each in (GERMAN, ENGLISH, "Nothing was found.")) == 1


async def test_that_no_chunk_of_a_name_was_found_is_said_too() -> None:
    result = await ask(retriever(World()), "a", kind=RequestKind.CHUNK_READ, document_ids=(DocumentId("a"),))

    assert "Nothing was found." in shown(result)


async def test_a_question_that_was_refused_is_not_called_one_without_an_answer() -> None:
    query = ContextQuery(query_id=QueryId("q"), tenant=TENANT, text="", asked_at=now())
    notice = Notice(stage="validate", kind=NoticeKind.REJECTED, message="text is empty")

    text = shown(retriever(World()).refusal(query, notice, trace_id=""))

    assert "text is empty" in text
    assert "found" not in text
