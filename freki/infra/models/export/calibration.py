"""Calibration inputs for a model of any tokenizer."""

from collections.abc import Iterator, Sequence

import numpy as np
from tokenizers import Encoding, Tokenizer

from freki.infra.models.build import calibration_lines
from freki.infra.models.descriptions import ModelDescription, ModelKind
from freki.infra.models.export.graph import Feed

_QUERY, _PASSAGE = "query: ", "passage: "


def calibration(description: ModelDescription, tokenizer: Tokenizer, inputs: Sequence[str]) -> Iterator[Feed]:
    """Yield the inputs of each calibration text, of an empty one and of all of them as one; of a reranker, of pairs."""
    lines = calibration_lines()
    queries = [line.removeprefix(_QUERY) for line in lines if line.startswith(_QUERY)]
    passages = [line.removeprefix(_PASSAGE) for line in lines if line.startswith(_PASSAGE)]
    # Special tokens alone have the largest values of all.
    passages += ["", " ".join(passages[::-1])]
    if description.kind is ModelKind.RERANKER:
        pairs = [(queries[number % len(queries)], passage) for number, passage in enumerate(passages)]
        encodings = tokenizer.encode_batch(pairs)
    else:
        encodings = tokenizer.encode_batch(
            [
                *(description.query_prefix + query for query in queries),
                *(description.passage_prefix + passage for passage in passages),
            ]
        )
    for encoding in encodings:
        yield _feed(encoding, inputs, description.max_tokens)


def _feed(encoding: Encoding, inputs: Sequence[str], most: int) -> Feed:
    found = {
        "input_ids": encoding.ids,
        "attention_mask": encoding.attention_mask,
        "token_type_ids": encoding.type_ids,
    }
    return {name: np.array([found[name][:most]], np.int64) for name in inputs}
