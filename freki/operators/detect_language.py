"""Language detection."""

import re
from collections.abc import Sequence
from functools import cache
from threading import Lock

from py3langid.langid import MODEL_FILE, LanguageIdentifier

UNDETERMINED = "und"
CANDIDATES = ("de", "en", "fr", "es", "it", "nl", "pt", "sv", "da", "pl")
_SAMPLES = 8
_SAMPLE_CHARS = 512
# Minimum share of the candidates in the probability over all languages of the model.
_LEAST_SHARE = 0.05
# Minimum probability of another language: a sentence is little text to detect one from.
_CERTAIN = 0.9
# Probability from which on the model is not overruled by words.
_LIKELY = 0.5
_SHORT_CHARS = 120
_WORD = re.compile(r"[^\W\d_]+")
_CODE = re.compile(r"[_(){}\[\]=<>;*/\\|@#$&]|--")
# Words that no other candidate has, nor a name: neither `die`, `was`, `das` (Portuguese), `mit` (Danish), `von`, `nur`,
# nor `is`, `of`, `to`, `my`, `have`. `wie` is Dutch too, which the model is sure of by itself.
_GERMAN = {
    *("wer", "wem", "wessen", "wie", "wo", "wann", "warum", "wieso", "weshalb", "wofür", "wozu", "womit", "woher"),
    *("wohin", "woran", "worauf", "worin", "wovon", "wodurch", "welche", "welcher", "welches", "welchem", "welchen"),
    *("ist", "sind", "wird", "werden", "wurde", "wurden", "kann", "darf", "muss", "soll", "gibt", "haben", "habe"),
    *("und", "oder", "nicht", "auch", "noch", "schon", "jetzt", "dass", "wenn", "kein", "keine", "keinen", "ohne"),
    *("für", "durch", "gegen", "nach", "wegen", "trotz", "während", "zwischen", "beim", "vom", "zum", "zur"),
    *("eine", "einen", "einem", "einer", "eines", "meine", "meinen", "meinem", "meiner", "diese", "dieser", "dieses"),
    *("ich", "wir", "sich"),
}
_ENGLISH = {
    *("who", "whose", "what", "where", "when", "why", "how", "which", "does", "did", "can", "could", "should", "would"),
    *("are", "were", "has", "the", "this", "that", "these", "those", "there", "it", "he", "she", "they", "you", "your"),
    *("our", "their", "and", "not", "any", "with", "without", "from", "about"),
}
# English asks `Was it …?`, with a name, or with more words, but with none of these verbs.
_WAS = re.compile(
    r"[Ww]as (?:[a-zäöüß]+ ?\?|(?:bedeute[nt]|beträgt|enthält|erlaubt|fordert|gilt|gelten|heißt|koste[nt]|macht|meint|"
    r"passiert|regel[nt]|sagt|sagen|steht|stehen|umfasst|verbietet|verlangt) .+)"
)


def detect_language(text: str, *, candidates: Sequence[str] = CANDIDATES, certainty: float = 0.5) -> str:
    """Return the ISO 639-1 code of the likeliest candidate, or `und` where none is certain enough.

    candidates: codes known to the model; ties fall to the first. certainty: minimum probability of the winner among the
    candidates, 0..1. Where the model has none, up to 120 characters that are no code are German or English if their
    function words are of one of the two alone. Numbers, names and single nouns mostly give `und`; mixed texts give the
    prevailing language. Long texts are sampled at 8 places of 512 characters.
    Raises ValueError for an unknown code.
    Source: Lui and Baldwin, langid.py, ACL 2012 (aclanthology.org/P12-3005), in the py3langid model.
    """
    shares = dict(_identifier().rank(_sampled(text)))
    unknown = [code for code in candidates if code not in shares]
    if unknown or not candidates:
        raise ValueError(f"candidates must be languages of the model, got {list(candidates)}")
    best = max(candidates, key=lambda code: shares[code])
    total = sum(shares[code] for code in candidates)
    if total < _LEAST_SHARE:
        return UNDETERMINED
    if shares[best] >= certainty * total:
        return best
    found = _by_function_words(text)
    is_open = found == best or shares[best] < _LIKELY * total
    return found if found in candidates and is_open else UNDETERMINED


def may_be_in(text: str, language: str) -> bool:
    """Return whether a short text may be in a language; true unless another one is very likely.

    language: ISO 639-1; true for one that is no candidate, such as `und`.
    """
    return language not in CANDIDATES or detect_language(text, certainty=_CERTAIN) in {language, UNDETERMINED}


def load_languages() -> None:
    """Load the model, which the first call would otherwise wait for."""
    _identifier()


_loading = Lock()


def _identifier() -> LanguageIdentifier:
    # The cache alone would let several threads load it at once, each for a second.
    with _loading:
        return _loaded()


@cache
def _loaded() -> LanguageIdentifier:
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def _by_function_words(text: str) -> str:
    """Return `de` or `en` for a short text with function words of that language alone, else `und`."""
    if len(text) > _SHORT_CHARS or _CODE.search(text):
        return UNDETERMINED
    words = set(_function_words(text))
    german, english = not words.isdisjoint(_GERMAN), not words.isdisjoint(_ENGLISH)
    if not english and (german or _WAS.fullmatch(text.strip())):
        return "de"
    return "en" if english and not german else UNDETERMINED


def _function_words(text: str) -> list[str]:
    """Return the words that may be function words: in small letters, as those of names and abbreviations are not.

    The first one may have a capital, except where it may be a name: `Oder`, `Can Yaman`, but not `Can Ben pay?`.
    """
    first, *others = _WORD.findall(text) or [""]
    is_name = not (others and others[0].islower()) and not text.rstrip().endswith("?")
    is_word = first.islower() or (first.istitle() and not is_name)
    return [*([first.lower()] if is_word else []), *filter(str.islower, others)]


def _sampled(text: str) -> str:
    if len(text) <= _SAMPLES * _SAMPLE_CHARS:
        return text
    step = (len(text) - _SAMPLE_CHARS) // (_SAMPLES - 1)
    return "\n".join(text[i * step : i * step + _SAMPLE_CHARS] for i in range(_SAMPLES))
