"""Words without meaning of their own, and the stems of the others."""

import re
from typing import Final

_WORD = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*")
_ENDING = re.compile(r"(?:innen|ens|ern|en|em|er|es|e|s|n)\Z")
_ROMAN = re.compile(r"[IVXLC]+[a-z]?")
_GENERAL_COMPOUND = re.compile(
    r"(?:voraussetzung|bestimmung|vorschrift|regelung|grundlage|übersicht)(?:en)?\Z", re.IGNORECASE
)
_LEAST_STEM: Final = 4


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


FUNCTION_WORDS: Final = _listed(
    """
    a ab aber about all alle allem allen aller alles als am an and any are as at auch auf aus be bei beim bis by can
    da damit dann das dass dem den denn der des die dies diese diesem diesen dieser dieses do does durch ein eine
    einem einen einer eines er es etwa etwas falls for from für gegen haben had has hat have hier hinter how i ich if
    ihr ihre im in ins into is ist it its je jede jedem jeden jeder jedes kann können man may mein mit muss must my
    müssen nach nicht no noch not nur ob oder of ohne on only or our over sein seine seiner should sich sie sind so
    sofern soll sollen soweit sowie such than that the their them then there these they this those to um und under
    unter up upon via vom von vor wann war waren warum was we wegen welche welchem welchen welcher welches wem wen
    wenn wer werden were what when where which who whom whose why wie will wird with within without wo woher wohin
    would wozu you your zu zum zur zwischen über
    """
)
DEPENDENT: Final = _listed(
    """
    als and as at auf aus bei beim bis by for from für gegen im in like mit nach of on or sowie to und unter using via
    vom von with without zu zum zur
    """
)
"""First words of headings that go on with the heading above them."""
ARTICLES: Final = frozenset({"a", "an", "the"})

GENERAL: Final = _listed(
    """
    abbildung abgrenzung ablauf abschnitt abstract abteilung acceptance achter acknowledgement addendum additional
    advantage aenderung agenda allgemein allgemeiner allgemeines alternative anfang anforderung angabe anhang anlage
    anmerkung annahme annex anspruch antrag anwendung anwendungsbereich appendix approach appropriate architecture
    argument art artikel assumption aufbau aufgabe aufhebung ausbildung ausblick ausfertigung ausgangslage auslage
    ausnahme ausserkrafttreten author außerkrafttreten background backward backwards basic basics bedeutung bedingung
    befugnis beginn begriff begriffsbestimmung begriffsdefinition begründung behavior behaviour beilage beispiel
    bekanntmachung bemerkung benefit berechnung bereich berufserfahrung besondere besonderes bestandteil besteh
    bestehen bestimmung betreff bezeichnung bibliographie bibliography big body bußgeldvorschrift case caveat
    certification change changelog chapter characteristic code comment common comparison compatibility complex
    component concept concern conclusion configuration consequence consideration contact contents context copyright
    credit criteria current custom data daten datum dauer default deferred definition definitionen deployment
    description design detail details dienstleistung difference different disabled disadvantage discussion document
    documentation download draft drawback dritter durchführung durchführungsvorschrift education eigenschaft
    einführung eingang eingangsformel einleitung einordnung einstieg einzelheit einzelne element empty enabled end
    enough ergebnis ergänzend ergänzende ergänzung erklärung erläuterung ermächtigung error erster example examples
    exception existing experience explicit extension fall fallback faq faqs fazit feature features field file final
    first folge footnote form format formular fragen full function functional further future fußnote fünfter gebühr
    gegenstand geltung geltungsbereich general gesamt gesetz getting gliederung glossar glossary goal goals grund
    grundlage grundsatz grundsätze guide guideline gültigkeit haftung headline hintergrund hinweis history hobby
    hobbys home how höhe idea ideas impact implementation implication implicit improvement inappropriate index info
    information inhalt inhaltsverzeichnis inhaltsübersicht initial inkrafttreten input installation instruction
    interessen interest interface introduction invalid issue issues item kapitel kenntnis key kind klausel known
    kommentar kontakt konzept kosten kurzfassung language languages large lebenslauf leistung licence license
    limitation link list liste literatur long main maintenance management maßnahme mechanism mehrere method methods
    misc miscellaneous mission mitigation mitteilung modul monatsbetrag more motivation multiple muster nachteil name
    naming need needs neu neunter new next non-goal non-goals note notes notice nummer nutzen objection objective
    observation old open operation option options ordnungswidrigkeit organisation other others outline output overview
    page parameter part pep performance person persönlich persönliche pflicht pflichten phase plan policy possible
    post-history potential preamble prerequisite presented principle problem problems procedure process product profil
    profile programm project pronouncement properties property proposal proposals proposed präambel purpose
    qualifikation quelle quellen question questions quick quickstart rahmen rationale reading recht rechte
    rechtsgrundlage reference references regel regelung regelungen regulation reject rejected rejection related
    release remark requirement requirements resolution resource resources result results review revision risk rollout
    rule rules same sample scenario schedule schluss schlussbestimmung schlussformel schlussvorschrift schluß
    schlußformel schlußvorschrift schritt scope sechster section security see semantic semantics setting settings
    setup short siebter simple single skill skills small solution sonstig sonstige sonstiges source specific
    specification sprache sprachen stand standard start status step steps stichwort strafvorschrift structure struktur
    style subject suggestion summary support syntax system tabelle table task teil term terminology terms test testing
    tests text thank thanks thema theme third time tip tips titel title todo tool tools topic type types typing
    unresolved update updates usage use user users uses using utility valid value values various verantwortlich
    verfahren verfahrensvorschrift verkündung verordnung verschiedene version versionen verweis verweisung verzeichnis
    viert vierter voraussetzung vorbemerkung vorgehen vorschrift vorschriften vorteil vorwort weitere weiteres
    wesentlich why wirksamkeit withdrawal work works zehnter ziel ziele zielsetzung zitat zitierweise zusammenfassung
    zusatz zuständig zuständige zuständigkeit zweck zweiter ändern änderung überblick übergang übergangsbestimmung
    übergangsregelung übergangsvorschrift überleitungsbestimmung überleitungsvorschrift übersicht übung
    """
)
"""Words of headings that say where one is in a document, not what it is about."""


def words_of(text: str) -> list[str]:
    """Return the words of a text in order, with hyphens inside."""
    return _WORD.findall(text)


def stem(word: str) -> str:
    """Return a word in lower case without the endings of its case and number, roughly; for comparison only.

    Idempotent: `implications` and `implication` have the same stem, although the latter ends like a plural, too.
    """
    folded = word.casefold().removesuffix("'s").removesuffix("’s")
    while (ending := _ENDING.search(folded)) and ending.start() >= _LEAST_STEM:
        folded = folded[: ending.start()]
    return folded


_GENERAL_STEMS: Final = frozenset(map(stem, GENERAL))


def is_general(word: str) -> bool:
    """Return whether a word is one of headings of any document, or no word at all."""
    return (
        stem(word) in _GENERAL_STEMS
        or bool(_GENERAL_COMPOUND.search(word))
        or word.casefold() in GENERAL
        or not any(map(str.isalpha, word))
        or bool(_ROMAN.fullmatch(word))
    )


def specific_stems(text: str) -> frozenset[str]:
    """Return the stems of the words that say what a text is about: neither function words nor general ones."""
    return frozenset(stem(word) for word in words_of(text) if content_stems(word) and not is_general(word))


def content_stems(text: str) -> frozenset[str]:
    """Return the stems of the words that carry meaning: no function words, no bare numbers."""
    return frozenset(
        stem(word)
        for word in words_of(text)
        if word.casefold() not in FUNCTION_WORDS and any(map(str.isalpha, word)) and len(word) > 1
    )
