"""Words that hits share with a query, and languages in which they cannot: both count in the confidence of a result."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from freki.operators.analyse_text import plain_terms
from freki.operators.identify import root_id
from freki.schemas import Confidence, DocumentId, Widening
from freki.schemas.index import RerankPair
from tests.unit.questions import OPTIONS, ask, retriever
from tests.unit.revisions import TENANT, World, revision, rows_of

# The embedder of the tests knows no meaning: vectors are more alike than those of a model.
DEFAULTS = replace(OPTIONS, unanswered_similarity=2.0, unrelated_cosine=0.0, related_cosine=2.0)


class Equally:
    """A reranker that finds all passages as probable."""

    name = "local"

    def __init__(self, probability: float) -> None:
        self._probability = probability

    async def score(self, pairs: Sequence[RerankPair], *, budget_s: float | None) -> list[float | None]:
        assert budget_s is not None
        return [self._probability] * len(pairs)


GERMAN = "die Gebühren für Mietverträge betragen zehn Euro"


async def said(
    text: str, probability: float, *, asked_in: str = "de", written_in: str = "de", written: str = GERMAN
) -> Confidence:
    world = World()
    await world.feed(revision("a", 1, [written], language=written_in))
    asked = retriever(world, rerankers=[Equally(probability)], defaults=DEFAULTS)
    return (await ask(asked, text, language=asked_in)).confidence


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Gebühr Mietvertrag", Confidence.HIGH),
        ("Wie hoch ist die Gebühr für einen Mietvertrag?", Confidence.HIGH),
        ("Gebühr Mietvertrag Hund", Confidence.HIGH),
        ("Gebühr Hund", Confidence.LOW),
        ("Hundesteuer Jahr", Confidence.LOW),
        # A compound is another one if only some of its parts are there.
        ("Gebühr Pachtvertrag", Confidence.LOW),
        ("Gebühr Vertragsmiete", Confidence.HIGH),
        ("Gebuehr Vertragsmiete", Confidence.HIGH),
    ],
)
async def test_a_probable_hit_with_most_words_of_the_query_is_certain(text: str, expected: Confidence) -> None:
    assert await said(text, 0.3) is expected


@pytest.mark.parametrize("asked_in", ["de", "und"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("15. Oktober 1990", Confidence.HIGH),
        ("15.10.1990", Confidence.HIGH),
        ("Oktober 1990", Confidence.HIGH),
        ("3. Oktober 1990", Confidence.LOW),
        ("Abkommen vom 3.10.1990", Confidence.LOW),
        ("1990-10-03", Confidence.LOW),
    ],
)
async def test_a_hit_has_a_date_only_if_it_has_the_day(text: str, asked_in: str, expected: Confidence) -> None:
    written = "Das Abkommen ist am 15. Oktober 1990 in Kraft getreten."

    assert await said(text, 0.3, asked_in=asked_in, written=written) is expected


async def test_an_english_word_that_would_be_a_german_compound_counts_in_any_inflection() -> None:
    written = "The fee of a kindergarten is ten euros."

    assert await said("fees kindergartens", 0.3, asked_in="en", written_in="en", written=written) is Confidence.HIGH


async def test_a_time_has_its_day() -> None:
    written = "`harbourctl restore --time 2024-03-01T10:15` restores"

    assert (
        await said("restore of 1 March 2024", 0.6, asked_in="en", written_in="en", written=written) is Confidence.HIGH
    )


@pytest.mark.parametrize(
    ("asked_in", "written_in", "probability", "expected"),
    [
        ("de", "de", 0.01, Confidence.NONE),
        ("en", "de", 0.01, Confidence.LOW),
        ("en", "de", 0.004, Confidence.NONE),
        ("de", "en", 0.004, Confidence.LOW),
        ("de", "en", 0.001, Confidence.NONE),
        ("und", "de", 0.01, Confidence.LOW),
        ("de", "und", 0.01, Confidence.LOW),
    ],
)
async def test_a_hit_in_another_language_need_be_less_probable(
    asked_in: str, written_in: str, probability: float, expected: Confidence
) -> None:
    assert await said("xylophone", probability, asked_in=asked_in, written_in=written_in) is expected


async def test_a_query_in_an_unknown_language_that_shares_words_is_in_the_language_of_the_hits() -> None:
    assert await said("Gebühren", 0.01, asked_in="und") is Confidence.NONE


async def test_a_part_of_a_compound_tells_the_language_of_the_hits() -> None:
    assert await said("Pachtvertrag", 0.01, asked_in="und") is Confidence.NONE


async def test_rows_with_words_as_they_are_share_those_that_the_query_spells_alike() -> None:
    world = World()
    await world.feed(revision("a", 1, [GERMAN], language="de"))
    for row, vector in (await rows_of(world.index, root_id(TENANT, DocumentId("a")))).values():
        await world.index.delete([row.row_id])
        await world.index.insert([replace(row, lexical=plain_terms(row.text, language="de"))], vector[None])
    asked = retriever(world, rerankers=[Equally(0.3)], defaults=DEFAULTS)

    assert (await ask(asked, "Gebühren Mietverträge", language="de")).confidence is Confidence.HIGH
    assert (await ask(asked, "Gebühr Mietvertrag", language="de")).confidence is Confidence.LOW


@pytest.mark.parametrize("asked_in", ["de", "und"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Abkommen in Kraft getreten 15.10.1990", Confidence.HIGH),
        ("Abkommen in Kraft getreten am 15.10.90", Confidence.HIGH),
        ("Abkommen in Kraft getreten am 3.10.1990", Confidence.LOW),
        ("Abkommen in Kraft getreten am 3.10.90", Confidence.LOW),
    ],
)
async def test_hits_that_lack_the_day_that_a_query_names_are_not_certain(
    text: str, asked_in: str, expected: Confidence
) -> None:
    written = "Das Abkommen ist am 15. Oktober 1990 in Kraft getreten."

    assert await said(text, 0.6, asked_in=asked_in, written=written) is expected


@pytest.mark.parametrize(
    ("text", "written", "expected"),
    [
        # It may be a version, or a day.
        ("Was geschah 14.3.23?", "Am 14. März 2023 geschah es.", Confidence.HIGH),
        ("Was geschah 14.3.24?", "Am 14. März 2023 geschah es.", Confidence.LOW),
        # A year may stand in a day, a season or a span.
        ("Wo arbeitete sie 1988?", "Sie arbeitete bei der Bahn am 12.05.1988.", Confidence.HIGH),
        ("Wo arbeitete sie am 12. Mai 1988?", "Sie arbeitete bei der Bahn am 12.05.1988.", Confidence.HIGH),
        ("Wo arbeitete sie 2001?", "1999–2005 arbeitete sie bei der Bahn", Confidence.HIGH),
        ("Wo arbeitete sie 2001?", "04/1999 – 12/2005 arbeitete sie bei der Bahn", Confidence.HIGH),
        ("Wo arbeitete sie 2020?", "Seit Januar 2013 arbeitete sie bei der Bahn", Confidence.HIGH),
        ("Was galt 2023/2024?", "Im Schuljahr 2023/24 galt es.", Confidence.HIGH),
        ("Was galt 2023/2024?", "Im Jahr 2024 galt es.", Confidence.HIGH),
        ("Was galt zwischen 1999 und 2005?", "Im Jahr 2001 galt es.", Confidence.HIGH),
        ("Wo arbeitete sie 2006?", "1999–2005 arbeitete sie bei der Bahn", Confidence.LOW),
        ("Wo arbeitete sie 2012?", "Seit Januar 2013 arbeitete sie bei der Bahn", Confidence.LOW),
        # A day may lie in a span, and the first of a span has no year of its own.
        ("Was galt am 5.3.2023?", "Vom 1.1. bis 31.12.2023 galt es.", Confidence.HIGH),
        ("Was galt am 5.1.2024?", "Vom 1.1. bis 31.12.2023 galt es.", Confidence.LOW),
        ("Wann begann es, am 1.4.2023?", "Es begann vom 1. April bis 15. Mai 2023.", Confidence.HIGH),
        ("Was galt vom 1.1.-31.12.2023?", "Im Jahr 2023 galt es.", Confidence.HIGH),
        ("Was galt vom 1.4. bis 15.5.2023?", "Im April 2023 galt es.", Confidence.HIGH),
        ("Was galt vom 1.4. bis 15.5.2023?", "Im Juni 2023 galt es.", Confidence.LOW),
        # The date of something is no day of a span.
        ("Urteil vom 5.3.2023", "Vom 1.1. bis 31.12.2023 galt das Urteil.", Confidence.LOW),
    ],
)
async def test_a_time_may_be_part_of_another(text: str, written: str, expected: Confidence) -> None:
    assert await said(text, 0.6, written=written) is expected


CLUSTER = "die Gebühren für Mietverträge im Cluster von Kafka betragen zehn Euro"


@pytest.mark.parametrize(
    ("text", "asked_in", "expected"),
    [
        ("Wie hoch ist die Gebühr im Cluster von Kafka?", "de", Confidence.HIGH),
        ("Wie hoch ist die Gebühr im Cluster von Kafkas?", "de", Confidence.HIGH),
        ("Wie hoch ist die Gebühr im Cluster von Kubernetes?", "de", Confidence.LOW),
        ("Gebühr Kubernetes", "de", Confidence.LOW),
        ("Kubernetes Gebühr", "und", Confidence.LOW),
        ("Vergleiche Gebühren und Zehnte", "de", Confidence.LOW),
        ("Vergleiche Gebühren und Mieten", "de", Confidence.HIGH),
        ("Vergleiche Gebühren und Zehnte nach Höhe", "de", Confidence.LOW),
        ("Vergleiche alte und neue Gebühren für Mietverträge", "de", Confidence.HIGH),
        # Words of dictionaries and compounds have synonyms.
        ("Wie hoch ist die Gebühr für einen Handyvertrag im Urlaub?", "de", Confidence.HIGH),
        ("Gebühr wie bei der Türbreite", "de", Confidence.HIGH),
        # Derived words, and words of the other language.
        ("Wie hoch ist die Gebühr bei Quarantänisierung und als Iterator?", "de", Confidence.HIGH),
        ("Wie hoch ist die Gebühr für Espressos?", "de", Confidence.HIGH),
        # Nouns with articles, which names seldom have; before other nouns the article is theirs.
        ("Wie hoch ist die Gebühr für ein Smartphone im Homeoffice?", "de", Confidence.HIGH),
        ("Wie hoch ist die Gebühr für zwei neue Payloads?", "de", Confidence.HIGH),
        ("Wie hoch ist die Gebühr im Kubernetes-Cluster?", "de", Confidence.LOW),
        ("Wie hoch ist die Gebühr im Kubernetes Cluster?", "de", Confidence.LOW),
        ("Wie hoch ist die Gebühr bei neuem Kubernetes?", "de", Confidence.LOW),
        # Abbreviations have long forms.
        ("Wie hoch ist die Gebühr nach der DSGVO und dem NetzDG?", "de", Confidence.HIGH),
        # At the beginning of a sentence all words have capitals, and names may differ between languages.
        ("Erklaere die Gebühr für Mietverträge im Cluster", "de", Confidence.HIGH),
        ("How high is the fee in Munich?", "en", Confidence.HIGH),
        ("Was zahlen Sie für Mietverträge im Jänner?", "de", Confidence.HIGH),
    ],
)
async def test_hits_without_a_name_of_the_query_are_not_certain(text: str, asked_in: str, expected: Confidence) -> None:
    assert await said(text, 0.6, asked_in=asked_in, written=CLUSTER) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Welche Religion hat Aylin Demirel?", Confidence.LOW),
        ("Wie viel verdient Aylin Demirel?", Confidence.LOW),
        ("Welche Sprachen spricht Aylin Demirel?", Confidence.HIGH),
        # What asks for nothing but the name, and what it is about as well.
        ("Wer ist Aylin Demirel?", Confidence.HIGH),
        ("Aylin Demirel", Confidence.HIGH),
        ("Demirel Sprachen", Confidence.HIGH),
    ],
)
async def test_a_hit_that_has_the_names_of_a_query_alone_is_not_certain(text: str, expected: Confidence) -> None:
    written = "Aylin Demirel lebt in Münster. Sprachen: Deutsch und Türkisch."

    assert await said(text, 0.3, written=written) is expected


@pytest.mark.parametrize("name", ["Käßtrup", "Kaesstrup", "Kässtrups"])
@pytest.mark.parametrize("written", ["Käßtrup", "Kaesstrup"])
async def test_a_name_may_have_its_umlauts_spelt_out(name: str, written: str) -> None:
    text = f"Welche Gebühr zahlt {name}?"

    assert await said(text, 0.6, written=f"Die Gebühr zahlt {written}.") is Confidence.HIGH


async def test_a_word_of_the_other_language_is_no_name() -> None:
    written = "The fee in Germany is ten euros."

    assert (
        await said("Is there a fee in Deutschland?", 0.6, asked_in="en", written_in="en", written=written)
    ) is Confidence.HIGH


async def test_a_verb_as_a_noun_is_in_compounds() -> None:
    assert await said("Dauer von Brühen", 0.6, written="Der Brühvorgang hat eine Dauer") is Confidence.HIGH


async def test_a_misspelt_name_that_was_corrected_is_there() -> None:
    world = World()
    await world.feed(revision("a", 1, [CLUSTER], language="de"))
    defaults = replace(DEFAULTS, widen=(Widening.SPELLING,))
    asked = retriever(world, rerankers=[Equally(0.6)], defaults=defaults)

    assert (await ask(asked, "Wie hoch ist die Gebühr bei Kavka?", language="de")).confidence is Confidence.HIGH


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4711-0815", Confidence.LOW),
        ("VMA", Confidence.LOW),
        ("max_size", Confidence.LOW),
        ("4711-0816", Confidence.NONE),
        ("VMB", Confidence.NONE),
        ("Pauschale", Confidence.NONE),
    ],
)
async def test_a_designation_alone_that_a_hit_has_is_not_told_to_be_missing(text: str, expected: Confidence) -> None:
    written = "Die Pauschale (VMA) steht unter Nr. 4711-0815 in `max_size`."

    assert await said(text, 0.001, asked_in="und", written=written) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Was bedeutet SGB XII?", Confidence.LOW),
        ("Was ist ein BAföG?", Confidence.LOW),
        ("Wofür steht die Abkürzung SGB XII?", Confidence.LOW),
        ("Bedeutung von BAföG", Confidence.LOW),
        ("SGB XII", Confidence.LOW),
        ("Was bedeutet SGB XI?", Confidence.NONE),
        ("Was bedeutet Leistung?", Confidence.NONE),
        ("Was kostet BAföG?", Confidence.NONE),
    ],
)
async def test_an_abbreviation_whose_meaning_is_asked_is_not_told_to_be_missing_where_a_hit_has_it(
    text: str, expected: Confidence
) -> None:
    written = "Leistungen nach dem SGB XII werden auf das BAföG angerechnet."

    assert await said(text, 0.001, written=written) is expected


@pytest.mark.parametrize(("text", "expected"), [("Was sagt Ziffer 2.2?", "LOW"), ("Was sagt Ziffer 2.3?", "NONE")])
async def test_a_cited_clause_that_a_hit_holds_is_not_told_to_be_missing(text: str, expected: str) -> None:
    assert await said(text, 0.001, written="2.1 Die Gebühr.\n\n2.2 Das Amt.") == expected
