"""Weights of the features of late interaction, and their calibration, from the development split of evaluation sets."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from freki.infra.evaluation_sets.beir import read_beir
from freki.infra.models import OnnxEmbedder
from freki.infra.settings import ModelSettings
from freki.operators.analyse_query import example_wordings
from freki.operators.centre_queries import centre_queries, query_centres
from freki.operators.detect_language import detect_language
from freki.operators.late_interaction import filled, match_codes, similarities
from freki.schemas.arrays import Floats
from freki.schemas.embeddings import each_query
from freki.schemas.evaluation import CorpusDocument
from freki.schemas.names import record
from freki.training.calibrate import platt
from freki.training.dataset import Document
from freki.training.encoders import MAX_CHARS, Stage
from freki.training.mining import HybridSearch
from freki.training.weigh import CandidateList, weigh

FEATURES = ("fused", "cosine", "lexical", "tokens", "text", "heading", "heading_tokens")
CANDIDATES = 200
_BLOCK = 256
_SAMPLED = 50
"""Documents by which the language of a set is detected."""


class Split(NamedTuple):
    """A BEIR-like set of which every n-th query is used."""

    directory: Path
    step: int


@record
class Fitted:
    """Weights with their calibration."""

    weights: dict[str, float]
    """Weight of each feature; the first is 1."""
    slope: float
    """Slope of the calibrated logit: slope * sum + shift."""
    shift: float
    queries: int


async def fit(splits: Sequence[Split], settings: ModelSettings, stage: Stage) -> Fitted:
    """Learn weights and calibration; each set counts the same. Raises Rejected for an invalid set."""
    async with OnnxEmbedder(settings) as embedder:
        examples = example_wordings()
        common = (await embedder.embed_queries([example.text for example in examples])).vectors
        centres = query_centres(common, [example.language for example in examples])
        lists = [each for split in splits for each in await _lists(split, embedder, centres, stage)]
    weights = weigh(lists)
    sums = np.concatenate([each.features @ np.array(weights, np.float32) for each in lists])
    slope, shift = platt(sums, np.concatenate([each.right for each in lists]))
    return Fitted(weights=dict(zip(FEATURES, weights, strict=True)), slope=slope, shift=shift, queries=len(lists))


async def _lists(
    split: Split, embedder: OnnxEmbedder, centres: Mapping[str, Floats], stage: Stage
) -> list[CandidateList]:
    """Return the candidates of each query of a split with their features.

    centres: what queries of each language have in common; dense search looks for centred ones, as in service.
    """
    examined = read_beir(split.directory)
    documents = [_document(each) for each in examined.corpus or ()]
    ids = [each.document_id for each in examined.corpus or ()]
    asked = examined.questions[:: split.step]
    texts = [document.whole[:MAX_CHARS] for document in documents]
    headings = [
        document.title if text.startswith(document.title) else ""
        for document, text in zip(documents, texts, strict=True)
    ]
    vectors, codes = [], list[str]()
    with stage(f"{examined.name}: embedding", len(texts)) as advance:
        for start in range(0, len(texts), _BLOCK):
            block = slice(start, start + _BLOCK)
            found = await embedder.embed_passages(texts[block], headings[block])
            vectors.append(found.vectors)
            codes += match_codes(found)
            advance(len(found.vectors))
    questions = [each.text for each in asked]
    embedded = await embedder.embed_queries(questions)
    centred = centre_queries(embedded.vectors, [centres.get(detect_language(text)) for text in questions])
    language = detect_language("\n".join(texts[:_SAMPLED]))
    with stage(f"{examined.name}: searching", len(questions)) as advance:
        search = await asyncio.to_thread(HybridSearch, texts, np.concatenate(vectors), language=language)
        candidates = search.find(questions, centred.vectors, width=CANDIDATES, advance=advance)
    lists = []
    for row, (question, query) in enumerate(zip(asked, each_query(embedded), strict=True)):
        places = candidates.places[row]
        found_similar = similarities(query, [codes[place] for place in places])
        features = np.column_stack(
            [
                candidates.fused[row],
                centred.lengths[row] * candidates.cosines[row] + centred.shifts[row],
                candidates.lexical[row],
                found_similar.tokens,
                found_similar.text,
                np.where(np.isnan(found_similar.heading), found_similar.text, found_similar.heading),
                filled(found_similar.heading_tokens),
            ]
        )
        judged = question.judgements or {}
        right = np.array([judged.get(ids[place], 0) > 0 for place in places])
        lists.append(CandidateList(features.astype(np.float32), right, share=1 / len(asked)))
    return lists


def _document(published: CorpusDocument) -> Document:
    """Return the document with title and text separated."""
    content = str(published.content)
    if published.name is None:
        return Document("", content.strip())
    heading, _, text = content.partition("\n\n")
    return Document(heading.removeprefix("# "), text.strip())
