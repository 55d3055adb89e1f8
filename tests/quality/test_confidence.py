"""Results say honestly whether they answer: keywords that nothing answers, questions in another language than texts.

`python -m bench.answerability` measures the same on evaluation sets; docs/evaluation.md has what came out.
"""

import pytest_asyncio

from freki.infra.evaluation_sets import read_set
from freki.infra.models import OnnxEmbedder
from freki.schemas import Confidence, ContextQuery, QueryId
from freki.streams.wire.from_settings import wall_clock
from tests.quality.gate import SETS
from tests.quality.pipeline import MODELS, TENANT, Asker, Freki

MANUAL = next(directory for directory in SETS if directory.name == "manual-en")
UNANSWERED = (
    "dog licence fee",
    "order pizza",
    "library opening hours",
    "weather tomorrow",
    "bicycle repair",
    "swimming pool tickets",
    "wedding appointment",
    "apple pie recipe",
    "train ticket price",
    "lawn mower spare parts",
    "descale coffee machine",
    "emergency dentist",
    "blood donation",
    "renew driving licence",
    "school parents evening",
    "tree removal permit",
    "gym membership cancellation",
    "annual zoo pass",
    "tax return deadline",
    "mortgage interest rate",
    "Hundesteuer pro Jahr",
    "Sperrmüll anmelden",
    "Bibliothek Ausleihfrist",
    "Hochzeit Standesamt Termin",
    "Friedhof Grabpflege",
)
ANSWERED = (
    "token lifetime",
    "carry over holidays",
    "gasket part number",
    "replace battery",
    "factory reset",
    "referral bonus",
    "idempotency key",
    "rain gauge",
    "restore backup",
    "webhook signature",
)
ACROSS = (
    "Wie stelle ich eine Regel ein, die bei schnellem Anstieg des Pegels warnt?",
    "Wie viele Wochen zahlt die Firma weiter, wenn ich krank bin?",
    "Was tun, wenn viele Messgeräte gleichzeitig verstummen?",
    "What does the evening shift in Kassel pay on top?",
    "Where do I charge my electric car and what does it cost?",
)
"""German questions that English documents answer, and the other way."""


Said = dict[str, Confidence]


@pytest_asyncio.fixture(scope="module")
async def said() -> Said:
    """Index the manual, and ask everything once."""
    async with OnnxEmbedder(MODELS) as embedder:
        freki = Freki(embedder)
        retriever = freki.retriever(await freki.indexed(read_set(MANUAL).corpus or ()))
        await retriever.warm_up()
        asker = Asker(retriever)
        queries = [
            ContextQuery(query_id=QueryId(text), tenant=TENANT, text=text, asked_at=wall_clock(), deadline_ms=60_000)
            for text in (*UNANSWERED, *ANSWERED, *ACROSS)
        ]
        return {query.text: (await asker.ask(query, patience_s=60)).confidence for query in queries}


def test_few_keywords_that_nothing_answers_are_answered_with_certainty(said: Said) -> None:
    deceived = [text for text in UNANSWERED if said[text] is Confidence.HIGH]

    assert len(deceived) <= len(UNANSWERED) // 10, deceived


def test_most_keywords_that_a_document_answers_are_answered_with_certainty(said: Said) -> None:
    found = {text: said[text] for text in ANSWERED}

    assert Confidence.NONE not in found.values(), found
    assert sum(each is Confidence.HIGH for each in found.values()) > len(ANSWERED) // 2, found


def test_an_answer_in_another_language_is_not_called_none(said: Said) -> None:
    found = {text: said[text] for text in ACROSS}

    assert Confidence.NONE not in found.values(), found
