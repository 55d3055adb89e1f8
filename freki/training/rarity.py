"""Rarity weights (IDF) of the pieces of a tokenizer."""

from collections.abc import Sequence

import numpy as np
from tokenizers import Tokenizer

from freki.schemas.arrays import Floats

_BLOCK = 1024


def rarity_of(tokenizer: Tokenizer, texts: Sequence[str]) -> Floats:
    """Return the weight of each piece by its document frequency, (pieces,); highest for unseen pieces.

    Source: Robertson and Spärck Jones, JASIS 1976, doi:10.1002/asi.4630270302, made positive as in Lucene.
    """
    present = np.zeros(tokenizer.get_vocab_size(), np.float64)
    for start in range(0, len(texts), _BLOCK):
        for encoding in tokenizer.encode_batch_fast(texts[start : start + _BLOCK]):
            present[np.unique(encoding.ids)] += 1
    weights: Floats = np.log1p((len(texts) - present + 0.5) / (present + 0.5)).astype(np.float32)
    return weights
