"""Ask questions whose answer is there, was taken away, or never was there: `python -m bench.answerability SET...`.

A set is a folder in BEIR format. Some of its questions are asked as they are; without the documents that answer them,
which a filter takes away; and each set is asked the questions of others, which nothing in it answers. Each question is
asked as it is and in its keywords. Sets with the same questions in two languages, such as XQuAD's, are asked across
languages too. All runs in this process, with real models and an index in memory.
"""

import asyncio
import json
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from bench.answerability.keywords import drawn, keywords_of
from bench.answerability.rates import Case, Evidence, Form, table
from freki.infra.evaluation_sets import read_set
from freki.infra.models import OnnxEmbedder
from freki.operators.detect_language import detect_language
from freki.schemas import ContextQuery, QueryId
from freki.schemas.evaluation import Question
from freki.streams.retrieve.retriever import Retriever
from freki.streams.wire.from_settings import wall_clock
from tests.quality.pipeline import MODELS, RETRIEVAL, TENANT, Freki

KEYWORDS = Path(__file__).parent
"""Folder of `nowhere-de.txt` and `nowhere-en.txt`: keywords that people type and no evaluation set answers."""


class Indexed(NamedTuple):
    """A set, what answers from its documents, and the questions that are asked of it."""

    name: str
    language: str
    retriever: Retriever
    questions: Sequence[Question]
    documents: frozenset[str]
    """Ids of all documents of the set without prefix: some sets contain others, or their translation."""


class Asked(NamedTuple):
    """A question to ask of a set."""

    case: Case
    language: str
    form: Form
    question: Question
    text: str
    where: str | None = None


def main() -> None:
    """Ask, write each result as a line of JSON, and print the rates."""
    arguments = _arguments()
    found = asyncio.run(_evidence(arguments))
    if arguments.lines:
        arguments.lines.write_text("".join(f"{json.dumps(asdict(each))}\n" for each in found), encoding="utf-8")
    sys.stdout.write(table(found))


def _arguments() -> Namespace:
    parser = ArgumentParser(prog="python -m bench.answerability", description=__doc__)
    parser.add_argument("sets", nargs="+", type=Path, help="folders in BEIR format")
    parser.add_argument("--questions", type=int, default=40, help="of each set")
    parser.add_argument("--documents", type=int, default=300, help="of each set, those that answer among them")
    parser.add_argument(
        "--leave-out", type=int, default=2, help="leave out every N-th question, as `make train` uses it"
    )
    parser.add_argument("--lines", type=Path, help="file for the evidence of each question")
    return parser.parse_args()


async def _evidence(arguments: Namespace) -> list[Evidence]:
    async with OnnxEmbedder(MODELS) as embedder:
        freki = Freki(embedder)
        every = [await _indexed(freki, directory, arguments) for directory in arguments.sets]
        found: list[Evidence] = []
        for one in every:
            await one.retriever.warm_up()
            found += [await _ask(one, asked) for asked in _asked(one, every)]
        return found


async def _indexed(freki: Freki, directory: Path, arguments: Namespace) -> Indexed:
    whole = read_set(directory)
    kept = [each for place, each in enumerate(whole.questions) if place % arguments.leave_out]
    questions = sorted(kept, key=lambda question: drawn(question.question_id))[: arguments.questions]
    answering = {document for question in questions for document in _answering(question)}
    corpus = sorted(whole.corpus or (), key=lambda each: (each.document_id not in answering, drawn(each.document_id)))
    corpus = corpus[: max(arguments.documents, len(answering))]
    sys.stderr.write(f"{directory.name}: {len(corpus)} documents\n")
    return Indexed(
        name=directory.name,
        language=Counter(detect_language(question.text) for question in questions).most_common(1)[0][0],
        retriever=freki.retriever(await freki.indexed(corpus)),
        questions=questions,
        documents=frozenset(_bare(each.document_id) for each in whole.corpus or ()),
    )


def _asked(one: Indexed, every: Sequence[Indexed]) -> Iterator[Asked]:
    for source in every:
        if source is not one and _same_questions(one, source):
            yield from _with_and_without(source.questions, f"{source.language} on {one.language}")
    yield from _with_and_without(one.questions, one.language)
    others = [other for other in every if other is not one and not _same_questions(one, other)]
    for language in sorted({other.language for other in others}):
        pair = one.language if language == one.language else f"{language} on {one.language}"
        strange = [
            [each for each in other.questions if one.documents.isdisjoint(map(_bare, _answering(each)))]
            for other in others
            if other.language == language
        ]
        # As many as it has of its own, of all others in turn.
        for question in islice(chain.from_iterable(zip(*filter(None, strange), strict=False)), len(one.questions)):
            yield from _forms(Case.FOREIGN, pair, language, question)
    file = KEYWORDS / f"nowhere-{one.language}.txt"
    for place, text in enumerate(file.read_text("utf-8").splitlines()):
        question = Question(question_id=f"nowhere-{place}", text=text, judgements={})
        yield Asked(Case.NOWHERE, one.language, Form.KEYWORDS, question, text)


def _with_and_without(questions: Sequence[Question], pair: str) -> Iterator[Asked]:
    language = pair.partition(" ")[0]
    for question in questions:
        yield from _forms(Case.ANSWERED, pair, language, question)
        yield from _forms(Case.REMOVED, pair, language, question, _without(_answering(question)))


def _forms(case: Case, pair: str, language: str, question: Question, where: str | None = None) -> Iterator[Asked]:
    yield Asked(case, pair, Form.QUESTION, question, question.text, where)
    if keywords := keywords_of(question.text, language=language):
        yield Asked(case, pair, Form.KEYWORDS, question, keywords, where)


def _same_questions(one: Indexed, other: Indexed) -> bool:
    """Return whether the sets ask the same in two languages."""
    return {each.question_id for each in one.questions} == {each.question_id for each in other.questions}


def _bare(document_id: str) -> str:
    return document_id.rpartition(":")[2]


def _answering(question: Question) -> list[str]:
    return [document for document, grade in (question.judgements or {}).items() if grade > 0]


def _without(documents: Sequence[str]) -> str:
    listed = ", ".join("'{}'".format(document.replace("'", "''")) for document in documents)
    return f"document_id NOT IN ({listed})"


async def _ask(one: Indexed, asked: Asked) -> Evidence:
    query = ContextQuery(
        query_id=QueryId(asked.question.question_id),
        tenant=TENANT,
        text=asked.text,
        asked_at=wall_clock(),
        where=asked.where,
        deadline_ms=60_000,
    )
    async with aclosing(one.retriever.answer([(query, "")])) as answers:
        async for _, result, _ in answers:
            probabilities = [hit.rerank_score for hit in result.hits if hit.rerank_score is not None]
            cosines = [hit.dense_score for hit in result.hits if hit.dense_score is not None]
            return Evidence(
                index=one.name,
                case=asked.case,
                language=asked.language,
                form=asked.form,
                question=asked.question.question_id,
                text=asked.text,
                right=any(hit.document_id in _answering(asked.question) for hit in result.hits),
                confidence=result.confidence,
                probability=max(probabilities, default=0.0),
                similarity=RETRIEVAL.options.similarity(max(cosines, default=-1.0)),
            )
    raise RuntimeError("no answer came")


if __name__ == "__main__":
    main()
