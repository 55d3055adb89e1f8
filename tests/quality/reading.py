"""How well questions are read: `python -m tests.quality.reading` prints the tables of docs/queries.md."""

import asyncio
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from freki.infra.models import OnnxEmbedder
from freki.infra.settings import ModelSettings
from freki.operators.analyse_query import (
    analyse_query,
    example_wordings,
    fit_prototypes,
    type_by_prototypes,
)
from freki.operators.detect_language import detect_language
from freki.schemas import QueryType
from freki.schemas.names import record

QUESTIONS = Path(__file__).parent / "questions"
HALVES = ("development", "held-out")
RULES, EXAMPLES, BOTH = "rules alone", "examples alone", "rules, else examples"


@record
class Labelled:
    """A question with what a careful reader takes it for."""

    text: str
    query_type: QueryType
    language: str
    keyword: bool
    exact: frozenset[str]


@record
class Read:
    """The same, with what it was read as."""

    question: Labelled
    types: Mapping[str, QueryType]
    """By how it was read."""
    keyword: bool
    exact: frozenset[str]


def labelled(half: str) -> list[Labelled]:
    """Read the questions of one half."""
    with (QUESTIONS / f"{half}.yaml").open(encoding="utf-8") as file:
        return [
            Labelled(
                text=each["question"],
                query_type=QueryType(each["type"]),
                language=each["language"],
                keyword=each.get("keyword", False),
                exact=frozenset(term.strip('„“»«"') for term in each.get("exact", ())),
            )
            for each in yaml.safe_load(file)["questions"]
        ]


async def read(halves: Sequence[str] = HALVES) -> dict[str, list[Read]]:
    """Read all questions in each way."""
    examples = example_wordings()
    found = {}
    async with OnnxEmbedder(ModelSettings()) as embedder:
        vectors = (await embedder.embed_queries([example.text for example in examples])).vectors
        prototypes = fit_prototypes(vectors, [example.query_type for example in examples])
        for half in halves:
            questions = labelled(half)
            vectors = (await embedder.embed_queries([question.text for question in questions])).vectors
            near = [type_by_prototypes(vector, prototypes) for vector in vectors]
            found[half] = [_read(question, each) for question, each in zip(questions, near, strict=True)]
    return found


def right(reads: Sequence[Read], way: str) -> int:
    """Count the questions whose type was read rightly."""
    return sum(each.types[way] is each.question.query_type for each in reads)


def _read(question: Labelled, near: QueryType) -> Read:
    reading = analyse_query(question.text, language=detect_language(question.text))
    return Read(
        question=question,
        types={
            RULES: reading.query_type or QueryType.FACTUAL,
            EXAMPLES: near,
            BOTH: reading.query_type or near,
        },
        keyword=reading.keyword,
        exact=frozenset(term.text for term in reading.exact),
    )


def _confusion(reads: Sequence[Read], way: str) -> list[str]:
    counts = Counter((each.question.query_type, each.types[way]) for each in reads)
    rows = [[label.lower(), *(str(counts[label, kind] or "") for kind in QueryType)] for label in QueryType]
    return _table([f"{way}: is ↓, read as →", *(kind.lower() for kind in QueryType)], rows)


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in (heading, ["---"] * len(heading), *rows)]


def _main() -> None:
    found = asyncio.run(read())
    rows = [
        [
            way,
            *(
                f"{right(reads, way)} of {len(reads)} ({right(reads, way) / len(reads):.3f})"
                for reads in found.values()
            ),
        ]
        for way in (RULES, EXAMPLES, BOTH)
    ]
    lines = _table(["type read by", *found], rows)
    for half, reads in found.items():
        for way in (RULES, EXAMPLES, BOTH):
            lines += ["", f"{half}:", "", *_confusion(reads, way)]
    sys.stdout.write("\n".join([*lines, ""]))


if __name__ == "__main__":
    _main()
