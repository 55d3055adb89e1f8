"""How rare the pieces of a tokenizer are: a rare piece of a question tells more of what is asked."""

from collections.abc import Sequence

import numpy as np
from tokenizers import Tokenizer

from freki.schemas.arrays import Floats

_BLOCK = 1024


def rarity_of(tokenizer: Tokenizer, texts: Sequence[str]) -> Floats:
    """Weigh each piece of the vocabulary by the texts that it is in, (pieces,); a piece that is in none weighs most.

    Source: Robertson and Spärck Jones, JASIS 1976, doi:10.1002/asi.4630270302, made positive as Lucene has it.
    """
    present = np.zeros(tokenizer.get_vocab_size(), np.float64)
    for start in range(0, len(texts), _BLOCK):
        for encoding in tokenizer.encode_batch_fast(texts[start : start + _BLOCK]):
            present[np.unique(encoding.ids)] += 1
    weights: Floats = np.log1p((len(texts) - present + 0.5) / (present + 0.5)).astype(np.float32)
    return weights
