"""Which language a text is in."""

from collections.abc import Sequence
from functools import cache

from py3langid.langid import MODEL_FILE, LanguageIdentifier

UNDETERMINED = "und"
CANDIDATES = ("de", "en", "fr", "es", "it", "nl", "pt", "sv", "da", "pl")
_SAMPLES = 8
_SAMPLE_CHARS = 512
# Of the probability over all languages of the model: without a known word, or in another language, there is less.
_LEAST_SHARE = 0.05


def detect_language(text: str, *, candidates: Sequence[str] = CANDIDATES, certainty: float = 0.5) -> str:
    """Return the ISO 639-1 code of the likeliest candidate, or `und` where none is certain enough.

    candidates: codes that the model knows; the first wins a tie. certainty: least probability of the winner among
    the candidates, 0..1. Numbers, names and single words are mostly `und`; a text in two languages is in the one
    that fills more of it. Long texts are judged by 8 samples of 512 characters.
    Raises ValueError for a code that the model does not know.
    Source: Lui and Baldwin, langid.py, ACL 2012 (aclanthology.org/P12-3005), in the py3langid model.
    """
    shares = dict(_identifier().rank(_sampled(text)))
    unknown = [code for code in candidates if code not in shares]
    if unknown or not candidates:
        raise ValueError(f"candidates must be languages of the model, got {list(candidates)}")
    best = max(candidates, key=lambda code: shares[code])
    total = sum(shares[code] for code in candidates)
    return best if shares[best] >= certainty * total and total >= _LEAST_SHARE else UNDETERMINED


@cache
def _identifier() -> LanguageIdentifier:
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def _sampled(text: str) -> str:
    if len(text) <= _SAMPLES * _SAMPLE_CHARS:
        return text
    step = (len(text) - _SAMPLE_CHARS) // (_SAMPLES - 1)
    return "\n".join(text[i * step : i * step + _SAMPLE_CHARS] for i in range(_SAMPLES))
