"""Language detection."""

from collections.abc import Sequence
from functools import cache

from py3langid.langid import MODEL_FILE, LanguageIdentifier

UNDETERMINED = "und"
CANDIDATES = ("de", "en", "fr", "es", "it", "nl", "pt", "sv", "da", "pl")
_SAMPLES = 8
_SAMPLE_CHARS = 512
# Minimum share of the candidates in the probability over all languages of the model.
_LEAST_SHARE = 0.05
# Minimum probability of another language: a sentence is little text to detect one from.
_CERTAIN = 0.9


def detect_language(text: str, *, candidates: Sequence[str] = CANDIDATES, certainty: float = 0.5) -> str:
    """Return the ISO 639-1 code of the likeliest candidate, or `und` where none is certain enough.

    candidates: codes known to the model; ties fall to the first. certainty: minimum probability of the winner among the
    candidates, 0..1. Numbers, names and single words mostly give `und`; mixed texts give the prevailing language. Long
    texts are sampled at 8 places of 512 characters.
    Raises ValueError for an unknown code.
    Source: Lui and Baldwin, langid.py, ACL 2012 (aclanthology.org/P12-3005), in the py3langid model.
    """
    shares = dict(_identifier().rank(_sampled(text)))
    unknown = [code for code in candidates if code not in shares]
    if unknown or not candidates:
        raise ValueError(f"candidates must be languages of the model, got {list(candidates)}")
    best = max(candidates, key=lambda code: shares[code])
    total = sum(shares[code] for code in candidates)
    return best if shares[best] >= certainty * total and total >= _LEAST_SHARE else UNDETERMINED


def may_be_in(text: str, language: str) -> bool:
    """Return whether a short text may be in a language; true unless another one is very likely.

    language: ISO 639-1; true for one that is no candidate, such as `und`.
    """
    return language not in CANDIDATES or detect_language(text, certainty=_CERTAIN) in {language, UNDETERMINED}


def load_languages() -> None:
    """Load the model, which the first call would otherwise wait for."""
    _identifier()


@cache
def _identifier() -> LanguageIdentifier:
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def _sampled(text: str) -> str:
    if len(text) <= _SAMPLES * _SAMPLE_CHARS:
        return text
    step = (len(text) - _SAMPLE_CHARS) // (_SAMPLES - 1)
    return "\n".join(text[i * step : i * step + _SAMPLE_CHARS] for i in range(_SAMPLES))
