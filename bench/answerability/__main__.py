"""Ask questions whose answer is there, was taken away, or never was there: `python -m bench.answerability SET...`.

A set is a folder in BEIR format. Some of its questions are asked as they are; without the documents that answer them,
which a filter takes away; and of the sets of the same language, each is asked the questions of the others. All runs in
this process, with real models and an index in memory.
"""

import asyncio
import json
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import asdict
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from bench.answerability.rates import Case, Evidence, table
from freki.infra.evaluation_sets import read_set
from freki.infra.models import OnnxEmbedder
from freki.operators.detect_language import detect_language
from freki.schemas import ContextQuery, QueryId
from freki.schemas.evaluation import EvaluationSet, Question
from freki.streams.retrieve.retriever import Retriever
from freki.streams.wire.from_settings import wall_clock
from tests.quality.pipeline import MODELS, RETRIEVAL, TENANT, Freki


class Indexed(NamedTuple):
    """A set, what answers from its documents, and the questions that are asked of it."""

    name: str
    retriever: Retriever
    questions: Sequence[Question]


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
    parser.add_argument("--lines", type=Path, help="file for the evidence of each question")
    return parser.parse_args()


async def _evidence(arguments: Namespace) -> list[Evidence]:
    async with OnnxEmbedder(MODELS) as embedder:
        freki = Freki(embedder)
        every: list[Indexed] = []
        for directory in arguments.sets:
            chosen = _part(read_set(directory), arguments.questions, arguments.documents)
            sys.stderr.write(f"{directory.name}: {len(chosen.corpus or ())} documents\n")
            retriever = freki.retriever(await freki.indexed(chosen.corpus or ()))
            every.append(Indexed(directory.name, retriever, chosen.questions))
        found: list[Evidence] = []
        for one in every:
            await one.retriever.warm_up()
            for case, question, where in _asked(one, every):
                found.append(await _ask(one, case, question, where))
        return found


def _part(whole: EvaluationSet, questions: int, documents: int) -> EvaluationSet:
    """Return some questions, with what answers them and some other documents: always the same ones."""
    asked = sorted(whole.questions, key=lambda question: _drawn(question.question_id))[:questions]
    answering = {document for question in asked for document in _answering(question)}
    corpus = sorted(whole.corpus or (), key=lambda each: (each.document_id not in answering, _drawn(each.document_id)))
    return EvaluationSet(
        name=whole.name, corpus=tuple(corpus[: max(documents, len(answering))]), questions=tuple(asked), notes=()
    )


def _asked(one: Indexed, every: Sequence[Indexed]) -> Iterator[tuple[Case, Question, str | None]]:
    for question in one.questions:
        yield Case.ANSWERED, question, None
        yield Case.REMOVED, question, _without(_answering(question))
    language = _language(one.questions)
    others = [other.questions for other in every if other.name != one.name and _language(other.questions) == language]
    # As many as it has of its own, of all others in turn.
    for question in islice(chain.from_iterable(zip(*others, strict=False)), len(one.questions)):
        yield Case.FOREIGN, question, None


def _language(questions: Sequence[Question]) -> str:
    return Counter(detect_language(question.text) for question in questions).most_common(1)[0][0]


def _drawn(name: str) -> str:
    """Return what to sort by for a sample that is always the same."""
    return blake2b(name.encode(), digest_size=8).hexdigest()


def _answering(question: Question) -> list[str]:
    return [document for document, grade in (question.judgements or {}).items() if grade > 0]


def _without(documents: Sequence[str]) -> str:
    listed = ", ".join("'{}'".format(document.replace("'", "''")) for document in documents)
    return f"document_id NOT IN ({listed})"


async def _ask(one: Indexed, case: Case, question: Question, where: str | None) -> Evidence:
    query = ContextQuery(
        query_id=QueryId(question.question_id),
        tenant=TENANT,
        text=question.text,
        asked_at=wall_clock(),
        where=where,
        deadline_ms=60_000,
    )
    async with aclosing(one.retriever.answer([(query, "")])) as answers:
        async for _, result, _ in answers:
            probabilities = [hit.rerank_score for hit in result.hits if hit.rerank_score is not None]
            cosines = [hit.dense_score for hit in result.hits if hit.dense_score is not None]
            return Evidence(
                index=one.name,
                case=case,
                question=question.question_id,
                right=any(hit.document_id in _answering(question) for hit in result.hits),
                probability=max(probabilities, default=0.0),
                similarity=RETRIEVAL.options.similarity(max(cosines, default=-1.0)),
            )
    raise RuntimeError("no answer came")


if __name__ == "__main__":
    main()
