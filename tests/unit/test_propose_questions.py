"""Questions are proposed that one document answers, in words that stand in it."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.propose_questions import (
    Proposal,
    ProposalDocument,
    ProposalHeading,
    ProposalPassage,
    SampleLimits,
    choose,
    choose_passages,
    divide,
    near_copies,
    proposal_id,
    propose_questions,
    without_ambiguous,
)
from freki.operators.propose_questions.definitions import LIST
from freki.operators.propose_questions.headings import _title, as_query
from freki.schemas import ChunkKind, Definition, DocumentId
from freki.schemas.evaluation import Origin, SetPart

FILLER = "Die zuständige Stelle prüft alle Unterlagen und teilt das Ergebnis schriftlich mit, bevor sie etwas zahlt."


def document(
    name: str,
    *sections: tuple[str, str],
    language: str = "de",
    abbreviations: Sequence[Definition] = (),
    kind: ChunkKind = ChunkKind.PROSE,
) -> ProposalDocument:
    """Build a document of sections at level 2 below a title, each with a text that is one chunk."""
    text = f"# {name}\n\n"
    headings = [ProposalHeading(start=0, level=1, title=name)]
    passages = []
    for title, body in sections:
        headings.append(ProposalHeading(start=len(text), level=2, title=title))
        text += f"## {title}\n\n"
        starts = tuple(place + 2 for place in range(len(body)) if body[place : place + 2] == ". ")
        passages.append(
            ProposalPassage(start=len(text), text=body, kind=kind, heading_path=(name, title), sentence_starts=starts)
        )
        text += f"{body}\n\n"
    return ProposalDocument(
        document_id=DocumentId(name),
        language=language,
        characters=len(text),
        headings=tuple(headings),
        passages=tuple(passages),
        abbreviations=tuple(abbreviations),
    )


def asked(*documents: ProposalDocument, origin: Origin | None = None) -> list[str]:
    found = propose_questions(documents).questions
    return [each.question for each in found if origin in {None, each.origin}]


def test_a_heading_that_is_a_question_is_asked_as_it_is_with_its_section() -> None:
    faq = document("a", ("3. Wie beantrage ich einen Personalausweis?", "Mit Termin."), ("Anderes", FILLER))

    (found,) = (each for each in propose_questions([faq]).questions if each.origin is Origin.FAQ)

    assert found.question == "Wie beantrage ich einen Personalausweis?"
    assert found.sections == ("3. Wie beantrage ich einen Personalausweis?",)


@pytest.mark.parametrize(
    "title", ["Warum dies?", "Welcher Test?", "Was gilt hier für Anträge?", "Does it work?", "Und dann?"]
)
def test_a_question_that_refers_to_its_surroundings_is_left_out(title: str) -> None:
    assert asked(document("a", (title, FILLER))) == []


@pytest.mark.parametrize(
    ("title", "rest"),
    [
        ("Anlagen zum Vertrag", "Anlagen zum Vertrag"),
        ("Parts list for pumps", "Parts list for pumps"),
        ("Steps to reproduce", "Steps to reproduce"),
        ("Question a colleague", "Question a colleague"),
        ("Arten der Nutzung", "Arten der Nutzung"),
        ("Anlage A zum Vertrag", "zum Vertrag"),
        ("Anlage 3 zum Vertrag", "zum Vertrag"),
        ("TEIL IV: Verkehr", "Verkehr"),
        ("Kap.IV Verkehr", "Verkehr"),
        ("§ 4a Fristen", "Fristen"),
    ],
)
def test_a_heading_loses_its_number_and_no_ending_of_a_plural(title: str, rest: str) -> None:
    assert _title(title) == rest


@pytest.mark.parametrize(
    "title",
    [
        "Einleitung",
        "§ 3",
        "Allgemeines",
        "§ 1 Anwendungsbereich und Begriffsbestimmungen",
        "Notes",
        "Kapitel IV",
        "2.1 Rejected Ideas",
        "(weggefallen)",
        "§ 7 (weggefallen)",
        "parse(text: str) -> int",
        "os.path",
        "Gültig ab 1. April 2019 für Bedienstete",
        "Mit anderen Bibliotheken",
        "Ignorance is Bliss",
        "Large Implications",
        "Zulassungsvoraussetzungen",
    ],
)
def test_a_heading_that_says_nothing_alone_is_left_out(title: str) -> None:
    assert asked(document("a", (title, FILLER))) == []


@pytest.mark.parametrize(
    ("title", "language", "query"),
    [
        ("Kündigung des Mietverhältnisses", "de", "Was gilt für die Kündigung des Mietverhältnisses?"),
        ("Prüfungen und Anordnungen", "de", "Was gilt für die Prüfungen und Anordnungen?"),
        ("Vergabeverfahren", "de", "Was gilt für das Vergabeverfahren?"),
        # The gender of the second noun is unknown, and so is its article.
        ("Gliederung und Inhalt der Prüfung", "de", "Gliederung und Inhalt der Prüfung"),
        ("Ursprung der Ware", "de", "Ursprung der Ware"),
        ("Erstattung; Verzinsung", "de", "Erstattung Verzinsung"),
        ("Angaben bei Darlehen und -hilfen", "de", "Angaben bei Darlehen und -hilfen"),
        ("Restore a backup", "en", "How do I restore a backup?"),
        ("Use cases of wheels", "en", "Use cases of wheels"),
        ("Check Prime Example", "en", "Check Prime Example"),
        ("The commit protocol", "en", "commit protocol"),
        ("Kündigung des Vertrags", "en", "Kündigung des Vertrags"),
    ],
)
def test_a_heading_becomes_a_question_only_where_that_is_grammatical(title: str, language: str, query: str) -> None:
    assert as_query(title, language) == query


def test_the_time_of_an_entry_of_a_cv_is_not_asked() -> None:
    cv = document("a", ("2014 bis 2019: Projektleiter, Nordlicht Planung, Bremen", FILLER), ("x", FILLER))

    assert asked(cv) == ["Projektleiter Nordlicht Planung Bremen"]


def test_a_heading_that_stands_twice_or_within_another_is_left_out() -> None:
    one = document("a", ("Prüfung der Aufzugsanlagen", FILLER), ("Lagerung von Gefahrstoffen", FILLER))
    other = document("b", ("Prüfung von Aufzugsanlagen", FILLER), ("Lagerung brennbarer Gefahrstoffe", FILLER))

    found = propose_questions([one, other])

    assert [each.question for each in found.questions] == ["Lagerung brennbarer Gefahrstoffe"]
    assert found.left_out["headings that stand in several places"] == 2
    assert found.left_out["headings whose words are in another heading"] == 1


def test_a_heading_whose_words_are_in_many_documents_is_left_out() -> None:
    others = [
        document(str(number), ("x", f"{FILLER} Auch Aufzugsanlagen brauchen eine Prüfung.")) for number in range(3)
    ]

    found = propose_questions([document("a", ("Prüfung der Aufzugsanlagen", FILLER)), *others])

    assert found.left_out["headings whose words are in too many documents"] == 1


@pytest.mark.parametrize(
    ("sentence", "question"),
    [
        ("(3) Arbeitgeber ist, wer andere in einem Arbeitsverhältnis beschäftigt.", "Wer ist Arbeitgeber?"),
        ("(5) Fachkundig ist, wer über die nötigen Kenntnisse verfügt.", "Wer ist fachkundig?"),
        ("Hersteller im Sinne dieses Gesetzes ist jede Person, die ein Produkt herstellt.", "Was bedeutet Hersteller?"),
        (
            "(1) Arbeitsmittel sind Werkzeuge und Geräte, die für die Arbeit verwendet werden.",
            "Was sind Arbeitsmittel?",
        ),
        ("Nutzenergie sind Licht, Wärme und Druckluft, die erzeugt werden.", "Was bedeutet Nutzenergie?"),
        ("Öffentliche Stellen sind Behörden, die Aufgaben des Bundes erfüllen.", "Was sind öffentliche Stellen?"),
        (
            "Unter Gefahrstoffen versteht man Stoffe mit Eigenschaften nach Anhang 1.",
            "Was versteht man unter Gefahrstoffen?",
        ),
        ("Als Werktag gilt jeder Tag außer Sonntagen und Feiertagen.", "Was gilt als Werktag?"),
        ("Ein mobiles Gerät ist ein Gerät, das ohne Netz betrieben werden kann.", "Was ist ein mobiles Gerät?"),
        ("Der Begriff Sorgfalt bezeichnet das Verhalten eines ordentlichen Kaufmanns.", "Was bedeutet Sorgfalt?"),
    ],
)
def test_a_german_definition_is_asked_for_with_its_sentence(sentence: str, question: str) -> None:
    (found,) = propose_questions([document("a", ("Einleitung", f"{FILLER} {sentence}"), ("x", FILLER))]).questions

    assert (found.question, found.spans, found.origin) == (question, (sentence,), Origin.DEFINITION)
    assert found.sections == ("Einleitung",)


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        (
            "Beschäftigter im Sinne dieses Gesetzes ist, wer\n\na) Arbeit leistet oder\n\nb) lernt.\n\n(2) Anderes.",
            ("Beschäftigter im Sinne dieses Gesetzes ist, wer", "a) Arbeit leistet oder", "b) lernt."),
        ),
        (
            "Beschäftigter im Sinne dieses Gesetzes ist, wer\n\n1. Arbeit leistet oder\n\n2. Kurse besucht.",
            ("Beschäftigter im Sinne dieses Gesetzes ist, wer", "1. Arbeit leistet oder", "2. Kurse besucht."),
        ),
        (
            "- Beschäftigter ist, wer:\n\na) Arbeit leistet,\n\nb) lernt,\n\n- Anderes steht anderswo.",
            ("- Beschäftigter ist, wer:", "a) Arbeit leistet,", "b) lernt,"),
        ),
        (
            "Beschäftigte im Sinne dieses Gesetzes sind:\n\na) Arbeitnehmer und\n\nb) Auszubildende.",
            ("Beschäftigte im Sinne dieses Gesetzes sind:", "a) Arbeitnehmer und", "b) Auszubildende."),
        ),
        (
            "Beschäftigter ist, wer Arbeit leistet.\n\n1. Anderes folgt in einer Liste.",
            ("Beschäftigter ist, wer Arbeit leistet.",),
        ),
    ],
)
def test_a_definition_that_goes_on_in_a_list_is_expected_with_its_items(text: str, spans: tuple[str, ...]) -> None:
    (found,) = propose_questions([document("a", ("§ 1", text))]).questions

    assert found.question in {"Wer ist Beschäftigter?", "Was sind Beschäftigte?"}
    assert found.spans == spans


def test_a_number_that_begins_no_list_is_not_taken_for_an_item() -> None:
    text = "Beschäftigter im Sinne dieses Gesetzes ist, wer nach Kapitel\n\n3. Betrieb und Arbeit."

    (found,) = propose_questions([document("a", ("§ 1", text))]).questions

    assert found.spans == ("Beschäftigter im Sinne dieses Gesetzes ist, wer nach Kapitel",)


def test_a_definition_whose_list_is_in_another_chunk_is_left_out_and_counted() -> None:
    found = propose_questions([document("a", ("§ 1", "Beschäftigter ist, wer eines davon erfüllt:"))])

    assert not found.questions
    assert found.left_out[LIST] == 1


@pytest.mark.parametrize(
    ("sentence", "question"),
    [
        ("A dead letter is a record that can never be processed.", "What is a dead letter?"),
        ("The extension registry means the mapping between codes and names.", 'What does "extension registry" mean?'),
        ("Lag denotes the distance between both ends of the log.", "What does Lag mean?"),
    ],
)
def test_an_english_definition_is_asked_for(sentence: str, question: str) -> None:
    body = f"It does not. {sentence}"

    assert asked(document("a", ("Notes", body), ("x", "y"), language="en")) == [question]


@pytest.mark.parametrize(
    "sentence",
    [
        "Der Anmeldung sind die Urkunden beizufügen, die der Notar beglaubigt hat.",
        "Die Geschäftsführer sind der Gesellschaft gegenüber verpflichtet, die Regeln einzuhalten.",
        "Nach der Prüfung sind Unterlagen vorzulegen, die vollständig sind.",
        "Voraussetzung sind Kenntnisse, die in der Ausbildung erworben wurden.",
        "Zuständig ist die Behörde, die den Bescheid erlassen hat.",
        "Services sind Teil der Plattform, die wir betreiben.",
        "Dies ist eine Regel, die jeder kennt.",
    ],
)
def test_a_sentence_that_defines_nothing_is_not_asked_for(sentence: str) -> None:
    assert asked(document("a", ("Einleitung", f"{FILLER} {sentence}"))) == []


@pytest.mark.parametrize(
    "sentence",
    [
        "This means that nobody knows.",
        "The condition means that it can be removed.",
        "Generally this means leading by example alone.",
    ],
)
def test_an_english_sentence_that_defines_nothing_is_not_asked_for(sentence: str) -> None:
    assert asked(document("a", ("Notes", sentence), language="en")) == []


def test_a_term_that_two_documents_define_is_left_out() -> None:
    sentence = "Arbeitgeber ist, wer andere Personen beschäftigt."

    found = propose_questions([document(name, ("Einleitung", sentence)) for name in "ab"])

    assert found.questions == ()
    assert found.left_out["terms that several documents define"] == 2


def test_a_term_that_most_documents_use_is_left_out() -> None:
    one = document("a", ("Einleitung", "Prüfbericht ist ein Schriftstück, das die Prüfung beschreibt."))
    others = [document(str(number), ("x", "Der Prüfbericht ist vorzulegen.")) for number in range(5)]

    assert asked(one, *others[:4], origin=Origin.DEFINITION) == ["Was bedeutet Prüfbericht?"]
    assert propose_questions([one, *others]).left_out["terms that many documents use"] == 1


def test_an_abbreviation_is_asked_for_with_the_sentence_that_explains_it() -> None:
    sentence = "Er führte die Umweltverträglichkeitsprüfung (UVP) durch."
    given = document(
        "a",
        ("Einleitung", f"{FILLER} {sentence}"),
        abbreviations=[Definition(short="UVP", long="Umweltverträglichkeitsprüfung")],
    )

    (found,) = propose_questions([given]).questions

    assert (found.question, found.spans) == ("Was bedeutet UVP?", (sentence,))


def test_source_code_gives_no_headings() -> None:
    assert asked(document("a.py", ("Restore the backup", FILLER), kind=ChunkKind.CODE, language="en")) == []


def test_a_question_that_two_documents_answer_is_left_out() -> None:
    left_out: Counter[str] = Counter()
    one, two = (Proposal(question="Wer  zahlt?", document_id=DocumentId(name), origin=Origin.FAQ) for name in "ab")
    same = replace(one, question="wer zahlt?")
    other = replace(one, question="Wer nicht?")

    assert without_ambiguous([one, same, other], left_out) == [one, other]
    assert without_ambiguous([one, two, other], left_out) == [other]
    assert without_ambiguous([one], left_out, taken={"wer zahlt?": DocumentId("b")}) == []


WORDS = ["Prüfung", "Aufzug", "Anlagen", "Lager", "ist", "sind", "wer", "die", "ein", "Gefahr", "Stoffe", "im", "Sinne"]
LINES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=9).map(lambda words: f"{' '.join(words)}.")
TEXTS = st.lists(
    LINES | st.sampled_from(["Kaufmann ist, wer handelt und wandelt.", "Waren sind Dinge, die man kauft."]), max_size=5
).map(" ".join)
TITLES = st.sampled_from(WORDS) | st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)


@st.composite
def corpora(draw: st.DrawFn) -> list[ProposalDocument]:
    names = draw(st.lists(st.sampled_from("abcdef"), unique=True, max_size=4))
    sections = st.lists(st.tuples(TITLES | TITLES.map("Was ist {}?".format), TEXTS), max_size=5)
    return [document(name, *draw(sections), language=draw(st.sampled_from(["de", "en", "und"]))) for name in names]


@given(corpora())
def test_every_span_and_section_stands_in_its_document_and_no_question_is_asked_twice(
    documents: list[ProposalDocument],
) -> None:
    by_id = {each.document_id: each for each in documents}
    questions = propose_questions(documents).questions

    for each in questions:
        given_document = by_id[each.document_id]
        text = "\n".join(passage.text for passage in given_document.passages)
        assert all(" ".join(span.split()) in " ".join(text.split()) for span in each.spans)
        headings = {heading for passage in given_document.passages for heading in passage.heading_path}
        assert set(each.sections) <= headings
    assert len({each.key for each in questions}) == len(questions)
    assert len({proposal_id(each) for each in questions}) == len(questions)


PROPOSALS = st.lists(
    st.builds(
        Proposal,
        question=st.integers(0, 30).map("Frage {}?".format),
        document_id=st.sampled_from("abcd").map(DocumentId),
        origin=st.sampled_from(Origin),
    ),
    unique_by=lambda each: (each.document_id, each.key),
)
COUNTS = st.dictionaries(st.sampled_from("abcd").map(DocumentId), st.integers(0, 4))


@given(PROPOSALS, COUNTS, st.integers(0, 5), st.integers(0, 20), st.integers(0, 3), st.randoms())
def test_a_sample_keeps_its_limits_and_does_not_depend_on_the_order(
    proposals: list[Proposal],
    existing: dict[DocumentId, int],
    per_document: int,
    most: int,
    seed: int,
    chance: random.Random,
) -> None:
    limits = SampleLimits(per_document=per_document, most=most, seed=seed, existing=existing)
    shuffled = list(proposals)
    chance.shuffle(shuffled)

    chosen = choose(proposals, limits)

    assert len(chosen) <= most
    counts = Counter(each.document_id for each in chosen)
    assert all(count + existing.get(name, 0) <= per_document for name, count in counts.items())
    assert {(each.document_id, each.key) for each in choose(shuffled, limits)} == {
        (each.document_id, each.key) for each in chosen
    }


def test_a_sample_is_spread_over_documents_and_origins() -> None:
    proposals = [
        Proposal(question=f"{name}{origin}{number}?", document_id=DocumentId(name), origin=origin)
        for name in "abcd"
        for origin in (Origin.HEADING, Origin.DEFINITION)
        for number in range(5)
    ]

    chosen = choose(proposals, SampleLimits(per_document=3, most=8, seed=0))

    assert set(Counter(each.document_id for each in chosen).values()) == {2}
    assert set(Counter(each.origin for each in chosen).values()) == {4}


def test_limits_below_zero_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 0"):
        SampleLimits(per_document=-1, most=1, seed=0)


def test_passages_come_from_prose_that_is_long_enough_one_of_each_document_first() -> None:
    long = [document(name, *((f"{number}", FILLER * 3) for number in range(6))) for name in "ab"]
    short = document("c", ("x", "Kurz."))
    table = document("d", ("x", FILLER * 3), kind=ChunkKind.TABLE)

    found = choose_passages([*long, short, table], SampleLimits(per_document=4, most=3, seed=0))

    assert [each.document_id for each, _ in found[:2]] in (["a", "b"], ["b", "a"])
    assert len(found) == 3
    full = SampleLimits(per_document=4, most=9, seed=0, existing={DocumentId("a"): 4})
    assert [each.document_id for each, _ in choose_passages([*long, short, table], full)] == ["b", "b"]


@given(st.lists(st.text(min_size=1, max_size=8).map(DocumentId), unique=True), st.data())
def test_all_near_copies_are_on_one_side(names: list[DocumentId], data: st.DataObject) -> None:
    groups = {name: data.draw(st.sampled_from(names)) for name in names}
    groups = {name: groups[group] if groups[groups[group]] == groups[group] else name for name, group in groups.items()}

    parts = divide(names, groups, {})

    assert all(parts[name] is parts[groups[name]] for name in names)
    assert len(set(parts.values())) == min(2, len(set(groups.values())))


def test_about_half_of_the_documents_are_in_each_part_and_known_ones_stay() -> None:
    names = [DocumentId(f"laws/{number}.md") for number in range(400)]
    parts = divide(names, {}, {})

    assert 160 < Counter(parts.values())[SetPart.TEST] < 240
    assert divide(names[:200], {}, {}) == {name: parts[name] for name in names[:200]}
    for part in SetPart:
        copies = {names[0]: names[1], names[1]: names[1]}
        assert divide(names, copies, {names[1]: part})[names[0]] is part
        assert divide(names, {}, {names[1]: part}) == {**parts, names[1]: part}


def test_documents_that_share_half_of_their_sentences_are_near_copies() -> None:
    sentences = [f"Satz {word} ist lang genug, um mit anderen verglichen zu werden." for word in "abcdefgh"]
    one = document("a", ("x", "\n\n".join(sentences)))
    edition = document("b", ("x", "\n\n".join(sentences[:5])))
    other = document("c", ("x", "Ein ganz anderer Satz, der nirgends sonst steht, nur hier."))

    assert near_copies([one, edition, other]) == {"a": "a", "b": "a", "c": "c"}
