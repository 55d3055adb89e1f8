"""Classification of queries by rules on their wording."""

import re
import unicodedata

from freki.schemas import QueryType


def _phrases(*patterns: str) -> re.Pattern[str]:
    return re.compile(r"\b(?:" + "|".join(patterns) + r")\b")


_MOST_READ = 2000

# Where someone worked, studied or lived: one query with several answers.
_STATIONS_DE = (
    r"(?:wo|für wen|bei wem|(?:für|bei|an) welche[mnr]? \w+)\b.{0,80}\b"
    r"(?:gearbeitet|beschäftigt|angestellt|tätig|studiert|gelebt|gewohnt|gelernt|unterrichtet|gelehrt|gespielt)"
)
_STATIONS_EN = (
    r"(?:where|whom|which \w+)\b.{0,80}\b"
    r"(?:worked|work for|work at|work|employed|studied|study|lived|live|taught|teach|played for|play for)"
)

# In this order: "Vergleiche alle Tarife" compares, "Übersicht der Schritte" lists.
_RULES: dict[str, tuple[tuple[QueryType, re.Pattern[str]], ...]] = {
    "de": (
        (
            QueryType.COMPARATIVE,
            _phrases(
                r"vergleich\w*", r"verglichen", r"unterschied(?:e|en|s)?", r"unterscheide[nt]?", r"gegenüberstell\w*",
                r"vs", r"versus", r"im gegensatz", r"(?:besser|schlechter|grösser|kleiner|höher|niedriger|teurer|"
                r"günstiger|schneller|langsamer|älter|jünger) als(?! \d)", r"vor- und nachteile\w*",
                r"(?:von den|der) (?:beiden|zwei|drei|vier)\b.{1,60}\b(?:mehr|weniger|\w{3,20}(?:er|ste[nrs]?))",
                r"lieber .{1,80} oder", r"(?:günstiger|billiger|besser|schneller|sinnvoller)\b.{0,80}\boder",
                r"haben .{1,80} gemeinsam", r"(?:dasselbe|das gleiche|identisch) (?:wie|mit)",
                r"weich(?:t|en) .{1,80} ab", r"wann .{1,60} (?:und|oder) wann",
            ),
        ),
        (
            QueryType.RELATIONAL,
            _phrases(
                r"zusammenh[aä]ng\w*", r"hängt .{1,80} zusammen", r"hängen .{1,80} zusammen", r"beziehung\w*",
                r"verhältnis zwischen", r"verhält sich .{1,80} zu", r"(?:aus|ein)wirkung\w*", r"wirkt sich",
                r"wirken sich", r"einfluss", r"beeinfluss\w*", r"abhängig\w*", r"hängt .{1,80} ab",
                r"was (?:passiert|geschieht) mit .{1,80} wenn", r"welche folgen", r"wer .{1,60} (?:an )?wen\b",
            ),
        ),
        (
            QueryType.AGGREGATIVE,
            _phrases(
                r"(?<!für )(?<!bei )(?<!an )(?<!von )(?<!mit )(?<!vor )(?<!in )alle[rs]?", r"sämtliche\w*",
                r"liste\w*", r"auflist\w*", r"aufzähl\w*", r"zähle\w*", r"übersicht\w*", r"überblick",
                r"nenne(?! ich| man| wir)", r"zusammenfass\w*", r"fass\w* .{1,80} zusammen", r"worum geht es",
                r"wovon handelt", r"welche \w+ (?:gibt es|sind|waren|haben|hatten|werden|wurden|gehören|zählen)",
                # In German "welche" with such an ending is plural.
                r"welche \w{2,40}en", r"stationen", r"wichtigste[nr]? (?:punkte|inhalte|aussagen)",
                _STATIONS_DE,
            ),
        ),
        (
            QueryType.PROCEDURAL,
            _phrases(
                r"wie (?:kann|könnte|muss|soll|sollte|darf)\w*", r"wie \w+(?: \w+)? (?:ich|man|wir)",
                r"was \w+ (?:ich|man|wir)\b.{0,80}\btun", r"wie geht\w*", r"wie funktioniert\w*", r"anleitung\w*",
                r"wie (?:wird|werden|lässt sich|lassen sich) .{1,80}(?:t|en)(?=\W{0,3}$)", r"in welcher reihenfolge",
                r"was (?:mache|tue) (?:ich|man|wir)", r"beheben", r"schritt\w*", r"vorgehen\w*", r"verfahren\w*",
                r"ablauf\w*", r"einricht\w*", r"installier\w*",
            ),
        ),
        (
            QueryType.TEMPORAL,
            _phrases(
                r"wann", r"seit wann", r"bis wann", r"ab wann", r"wie lang\w*", r"wie oft", r"in welchem jahr\w*",
                r"welches jahr", r"an welchem (?:tag|datum)", r"zu welcher zeit", r"datum", r"zeitpunkt", r"zeitraum",
                r"\w*frist(?:en)?", r"\w*zeiten", r"wie schnell muss", r"ab welche[mr] (?:version|tag|jahr|alter)",
                r"zeit(?:strahl|leiste|plan|tafel)", r"chronolog\w*",
                r"(?:zwischen|vor|nach|seit|ab|bis) (?:1\d|20)\d\d",
            ),
        ),
    ),
    "en": (
        (
            QueryType.COMPARATIVE,
            _phrases(
                r"compar\w+", r"differ", r"differs", r"differences?", r"distinguish\w*", r"vs", r"versus",
                r"as opposed to", r"in contrast to", r"(?:better|worse|bigger|larger|smaller|higher|lower|"
                r"cheaper|faster|slower|older|younger) than(?! \d)", r"pros and cons", r"advantages\w* .{1,80} over",
                r"of the (?:two|three|four)\b.{1,60}\b(?:more|less|most|least|\w{3,20}er)",
                r"(?:choose|prefer) .{1,60} over",
                r"(?:cheaper|better|faster|should i) .{1,80} or", r"in common",
                r"the same(?: thing)? as", r"improvements? on",
            ),
        ),
        (
            QueryType.RELATIONAL,
            _phrases(
                r"relat(?:e|es|ed|ion|ions|ionship|ionships)", r"connect(?:ed|ion|ions)", r"associat(?:ed|ion)",
                r"link between", r"(?:effect|effects|impact|influence) (?:of|on)", r"affects?", r"influences?",
                r"consequences? (?:of|for)", r"what happens to", r"rel(?:y|ies) on", r"who .{1,60} (?:to )?whom",
                r"depends? on", r"dependent on",
            ),
        ),
        (
            QueryType.AGGREGATIVE,
            _phrases(
                r"(?<!for )(?<!with )(?<!of )(?<!by )(?<!in )(?<!at )all(?! right| of the same)", r"lists?",
                r"enumerate", r"overview", r"summar\w+", r"name the", r"what is .{1,80} about",
                r"(?:which|what) \w+ (?:are there|are|were|have|exist)", _STATIONS_EN,
                r"(?:which|what) (?:\w{2,40} )?\w{2,40}(?<![aius])s (?:do|does|did|can|could|must|may|should|will)",
                r"(?:main|key) points", r"possible values", r"rundown",
            ),
        ),
        (
            QueryType.PROCEDURAL,
            _phrases(
                r"how to", r"how (?:can|could|do|does|should|must|would|may) (?:i|we|you|one)", r"steps?", r"guide",
                r"how (?:is|are|can|should|must|may) .{1,80}(?:ed|en)(?=\W{0,3}$)", r"in (?:what|which) order",
                r"instructions?", r"procedure\w*", r"tutorial", r"install\w*", r"configur\w*", r"set up",
                r"what (?:should|must|can) (?:i|we|you|one) do",
            ),
        ),
        (
            QueryType.TEMPORAL,
            _phrases(
                # Further on it is mostly a conjunction.
                r"(?:^|(?:since|from|until|by|and) )when", r"when (?:is|are|was|were|do|does|did|will|has|have|had)",
                r"how (?:long|often|soon|quickly)",
                r"(?:what|which) (?:year|date|day|month|time)s?",
                r"(?:from|since) (?:what|which) version", r"(?:opening|office|business) hours",
                r"date", r"deadline\w*", r"timeline", r"chronolog\w*",
                r"(?:between|before|after|since|until) (?:1\d|20)\d\d",
            ),
        ),
    ),
}  # fmt: skip


def type_by_wording(text: str, *, language: str) -> QueryType | None:
    """Return the type by the rules of the language, or by all rules for other languages; None where no rule matches.

    Of several matches the type that needs the most chunks wins: comparisons and relations, then lists, procedures,
    times. Only the first 2,000 characters are read.
    """
    wording = " ".join(unicodedata.normalize("NFKC", text[:_MOST_READ]).casefold().split())
    languages = (language,) if language in _RULES else tuple(_RULES)
    fitting = (kind for rules in languages for kind, phrases in _RULES[rules] if phrases.search(wording))
    return next(fitting, None)
