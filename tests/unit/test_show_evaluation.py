"""What `freki eval` prints beside its figures."""

from io import StringIO

from rich.console import Console

from freki.cli.evaluate.show_evaluation import SHOWN_CHANGES, show_set
from freki.schemas import DocumentId
from freki.streams.evaluate.result import Answered, Run, SetResult


def answered(number: int, place: int | None, *, relevant: bool = True) -> Answered:
    return Answered(
        question_id=f"q{number}",
        text=f"Wie ist es mit {number}?",
        language="de",
        query_type="FACTUAL",
        figures={"nDCG@10": 0.5},
        ranking=(),
        relevant={DocumentId(f"d{number}"): place} if relevant else {},
    )


def shown(*answers: Answered) -> str:
    run = Run(title="as set", answers=answers, lower_bounds=(), remarks=())
    result = SetResult(name="handbuch", fingerprint="", documents=3, asked_of="here", notes=(), runs=(run,), titles={})
    file = StringIO()
    show_set(Console(file=file, width=120), result)
    return file.getvalue()


def test_questions_without_an_expected_document_in_the_answer_are_named() -> None:
    text = shown(answered(1, 1), answered(2, None), answered(3, None, relevant=False))

    assert "1 question without any expected document" in text
    assert "q2  Wie ist es mit 2?  (expected d2)" in text
    assert "q1  " not in text
    assert "q3  " not in text


def test_of_many_a_few_are_named_and_the_rest_counted() -> None:
    text = shown(*(answered(number, None) for number in range(SHOWN_CHANGES + 2)))

    assert "and 2 more: the report lists all" in text


def test_where_all_is_found_nothing_is_said() -> None:
    assert "expected document" not in shown(answered(1, 3))
