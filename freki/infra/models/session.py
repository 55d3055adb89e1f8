"""An open model: tokens in; vectors, token states or scores out."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

from freki.infra.cores import usable_cores
from freki.infra.models.descriptions import ModelKind, Pooling
from freki.infra.models.manifest import VOCABULARY, ModelManifest, dim_of, fingerprint_of, read_manifest
from freki.infra.models.tensors import DISTILLED, FIELDS, TOKENS
from freki.infra.models.tokenizer import Span, TextTokenizer, Tokens, open_text_tokenizer
from freki.schemas.arrays import Floats
from freki.schemas.embeddings import Embeddings
from freki.schemas.errors import Misconfigured, Rejected, Unavailable

# Texts, tokens, dimensions.
_STATES_NDIM = 3
_INPUTS = {"input_ids", "attention_mask", "token_type_ids", FIELDS}

# Fusions that are slower than the separate operators, see `bert.py`.
_SLOW_FUSIONS = ("BiasGeluFusion", "SkipLayerNormFusion")
TRANSIENT = (
    ort_errors.DeviceReset,
    ort_errors.EngineError,
    ort_errors.EPFail,
    ort_errors.Fail,
    ort_errors.RuntimeException,
)
"""Transient errors of onnxruntime, such as lack of memory."""
LASTING = (
    ort_errors.InvalidArgument,
    ort_errors.InvalidGraph,
    ort_errors.InvalidProtobuf,
    ort_errors.ModelLoadCanceled,
    ort_errors.ModelLoaded,
    ort_errors.ModelRequiresCompilation,
    ort_errors.NoModel,
    ort_errors.NoSuchFile,
    ort_errors.NotFound,
    ort_errors.NotImplemented,
)
"""Permanent errors of onnxruntime: an invalid model or call."""


_TINY = 1e-9


class Vocabulary(NamedTuple):
    """What a model with token vectors knows of each piece of its vocabulary."""

    weights: Floats
    """Weight in a query, (pieces,)."""
    kept: NDArray[np.bool_]
    """Whether its token vector is stored with a passage, (pieces,)."""


class Model:
    """An open model. Calls block and are thread-safe: sessions and tokenizers keep no state between calls."""

    def __init__(
        self,
        manifest: ModelManifest,
        fingerprint: str,
        tokenizer: TextTokenizer,
        session: ort.InferenceSession,
        *,
        pieces: Vocabulary | None = None,
    ) -> None:
        """Wrap an open session; pieces: None for a model without token vectors."""
        self.manifest = manifest
        self.fingerprint = fingerprint
        self._tokenizer = tokenizer
        self._session = session
        self._inputs = {each.name for each in session.get_inputs()}
        if unknown := self._inputs - _INPUTS:
            raise Misconfigured(f"{manifest.name} wants {', '.join(sorted(unknown))}, which Freki does not give")
        self._output = _output_of(session, manifest)
        self._states = _states_of(session)
        self._pieces = pieces
        prefixes = (manifest.passage_prefix, manifest.query_prefix)
        self._prefix_tokens = {each: self.count([each.strip()])[0] if each.strip() else 0 for each in prefixes}

    @property
    def dim(self) -> int:
        """Dimension of the vectors of an embedder."""
        return dim_of(self.manifest)

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, without special ones and without a limit."""
        return self._tokenizer.count(texts)

    def encode(self, texts: Sequence[str]) -> Sequence[Tokens]:
        """Tokenise texts with special tokens, truncated to the input of the model."""
        return self._tokenizer.encode(texts, most=self.manifest.max_tokens)

    def encode_placed(self, texts: Sequence[str]) -> Sequence[Tokens]:
        """Tokenise like `encode`, with the span of each token in its text; special tokens have (0, 0)."""
        return self._tokenizer.encode_placed(texts, most=self.manifest.max_tokens)

    def encode_pairs(self, pairs: Sequence[tuple[str, str]]) -> Sequence[Tokens]:
        """Tokenise (query, text) pairs, truncating the text; the query is truncated to half of the input."""
        return self._tokenizer.encode_pairs(pairs, most=self.manifest.max_tokens)

    def passages(self, batch: Sequence[Tokens], headings: Sequence[int]) -> Embeddings:
        """Embed a batch of passages, with their prefix, as one padded matrix; headings: number of tokens of each."""
        own = [self._content(encoding, self.manifest.passage_prefix) for encoding in batch]
        whole_and_heading = [
            [content, content & (content.cumsum() <= heading)] if heading else [content]
            for content, heading in zip(own, headings, strict=True)
        ]
        output, tokens, distilled, mask = self._embedded(batch, "passage", self._output, whole_and_heading)
        # A model without token vectors gives none.
        of_texts = zip(tokens, own, batch, strict=False)
        stored = [row[: len(chosen)][chosen & self._kept(encoding)] for row, chosen, encoding in of_texts]
        return Embeddings(
            self._pooled(output, mask), stored, distilled, headings=self._stored_headings(batch, own, headings)
        )

    def queries(self, batch: Sequence[Tokens]) -> Embeddings:
        """Embed a batch of queries, with their prefix, as one padded matrix."""
        own = [self._content(encoding, self.manifest.query_prefix) for encoding in batch]
        output, tokens, distilled, mask = self._embedded(batch, "query", self._output, [[each] for each in own])
        # A model without token vectors gives none.
        of_texts = [row[: len(chosen)][chosen] for row, chosen in zip(tokens, own, strict=False)]
        weights = [self._weights(encoding, chosen) for _, encoding, chosen in zip(tokens, batch, own, strict=False)]
        distilled = [_unit(rows) for rows in distilled]
        return Embeddings(self._pooled(output, mask), of_texts, distilled, weights=weights)

    def within(self, batch: Sequence[Tokens], spans: Sequence[Sequence[Span]]) -> Embeddings:
        """Embed spans of passages by the mean state of their tokens.

        batch: texts from `encode_placed`. A span in the truncated part has the embedding of the remaining text.
        """
        fields = [self._spans(encoding, within) for encoding, within in zip(batch, spans, strict=True)]
        states, tokens, distilled, _ = self._embedded(batch, "passage", self._states, fields)
        if states.ndim != _STATES_NDIM:
            raise Misconfigured(f"{self.manifest.name} gives no states of tokens, which late chunking needs")
        placed = [(row, chosen) for row, own in enumerate(fields) for chosen in own]
        vectors = [states[row, : len(chosen)][chosen].sum(axis=0) for row, chosen in placed]
        return Embeddings(
            _unit(np.array(vectors, np.float32).reshape(-1, self.dim)),
            [tokens[row, : len(chosen)][chosen & self._kept(batch[row])] for row, chosen in placed if len(tokens)],
            [rows[place : place + 1] for rows in distilled for place in range(len(rows))],
        )

    def logits(self, batch: Sequence[Tokens]) -> Floats:
        """Score a batch of pairs as one padded matrix; returns (pairs,), any real numbers."""
        (output,), _ = self._run(batch, self._output)
        if output.size != len(batch):
            raise Misconfigured(f"{self.manifest.name} gives {output.shape[1:]} numbers a pair, not one")
        return output.reshape(-1)

    def _content(self, encoding: Tokens, prefix: str) -> NDArray[np.bool_]:
        """Return which tokens are not special ones or those of the prefix, (tokens,); all if there are no others."""
        lead = 1 + self._prefix_tokens[prefix]
        chosen = np.zeros(len(encoding), bool)
        chosen[lead:-1] = True
        return chosen if chosen.any() else ~chosen

    def _kept(self, encoding: Tokens) -> NDArray[np.bool_]:
        """Return which tokens are of pieces that are stored, (tokens,)."""
        kept: NDArray[np.bool_] = self._vocabulary.kept[np.array(encoding.ids)]
        return kept

    def _spans(self, encoding: Tokens, spans: Sequence[Span]) -> list[NDArray[np.bool_]]:
        """Return which tokens belong to each span, (tokens,)."""
        offsets = np.array(encoding.offsets)
        found = [(offsets[:, 0] < end) & (offsets[:, 1] > start) for start, end in spans]
        return [own if own.any() else np.ones(len(encoding), bool) for own in found]

    def _stored_headings(
        self, batch: Sequence[Tokens], own: Sequence[NDArray[np.bool_]], headings: Sequence[int]
    ) -> list[int]:
        """Return how many tokens of each heading are stored."""
        if self._pieces is None:
            return []
        return [
            int((content & self._kept(encoding))[content.cumsum() <= heading].sum())
            for content, encoding, heading in zip(own, batch, headings, strict=True)
        ]

    def _weights(self, encoding: Tokens, chosen: NDArray[np.bool_]) -> Floats:
        """Return the weights of a query's tokens, (tokens,), sum 1."""
        weights = self._vocabulary.weights[np.array(encoding.ids)[chosen]]
        found: Floats = weights / max(float(weights.sum()), _TINY)
        return found

    @property
    def _vocabulary(self) -> Vocabulary:
        if self._pieces is None:
            raise RuntimeError(f"{self.manifest.name} gives no token vectors")
        return self._pieces

    def _pooled(self, output: Floats, mask: NDArray[np.int64]) -> Floats:
        states = output if output.ndim != _STATES_NDIM else _pool(output, mask, self.manifest.pooling)
        if states.shape[1] != self.dim:
            raise Misconfigured(f"{self.manifest.name} gives vectors of {states.shape[1]} numbers, not {self.dim}")
        return _unit(states)

    def _embedded(
        self, batch: Sequence[Tokens], role: str, output: str, fields: Sequence[Sequence[NDArray[np.bool_]]]
    ) -> tuple[Floats, Floats, list[Floats], NDArray[np.int64]]:
        """Return an output, token vectors, distilled vectors of each text's fields with variance 1, and the mask.

        fields: which tokens belong to each, (tokens,). Token and distilled vectors are empty for a model without any.
        """
        if self._pieces is None:
            (found,), mask = self._run(batch, output)
            return found, np.empty((0, 0, 0), np.float32), [], mask
        weights = np.zeros((len(batch), max(map(len, fields)), max(map(len, batch))), np.float32)
        for row, of_text in enumerate(fields):
            for place, chosen in enumerate(of_text):
                weights[row, place, : len(chosen)] = chosen / max(int(chosen.sum()), 1)
        (found, tokens, distilled), mask = self._run(batch, output, TOKENS[role], DISTILLED[role], fields=weights)
        scale = np.float32(np.sqrt(distilled.shape[2]))
        return found, tokens, [scale * _unit(row[: len(own)]) for row, own in zip(distilled, fields, strict=True)], mask

    def _run(
        self, batch: Sequence[Tokens], *outputs: str, fields: Floats | None = None
    ) -> tuple[list[Floats], NDArray[np.int64]]:
        ids = np.full((len(batch), max(map(len, batch))), self._tokenizer.pad, np.int64)
        mask, types = np.zeros_like(ids), np.zeros_like(ids)
        for row, encoding in enumerate(batch):
            ids[row, : len(encoding)] = encoding.ids
            mask[row, : len(encoding)] = 1
            types[row, : len(encoding)] = encoding.type_ids
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types, FIELDS: fields}
        with _translated(f"cannot run {self.manifest.name}"):
            found = self._session.run(outputs, {name: feeds[name] for name in self._inputs})
        return [np.asarray(each, np.float32) for each in found], mask


CPU = "CPUExecutionProvider"


def open_model(directory: Path, *, threads: int, providers: Sequence[str] = (CPU,)) -> Model:
    """Load a model; `threads` 0 means one for each usable core; providers: execution providers, best first.

    Raises Misconfigured where the files are not a model, or a provider is not there or does not start: onnxruntime
    itself would use the processor without a word.
    """
    if missing := [name for name in providers if name not in ort.get_available_providers()]:
        there = ", ".join(ort.get_available_providers())
        raise Misconfigured(
            f"FREKI_MODELS__PROVIDERS: this onnxruntime has no {missing[0]}, but {there}: install the build for it, "
            "such as onnxruntime-gpu in place of onnxruntime, or leave it out"
        )
    manifest = read_manifest(directory)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads or usable_cores()
    # Spinning threads raise the CPU time of a short query from 4 to 11 ms.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Errors are raised anyway; warnings concern the export of the model.
    options.log_severity_level = 3
    try:
        session = ort.InferenceSession(
            directory / manifest.weights,
            options,
            providers=list(providers),
            disabled_optimizers=list(_SLOW_FUSIONS),
        )
    except (*TRANSIENT, *LASTING) as error:
        raise Misconfigured(f"{directory / manifest.weights} is not a model that onnxruntime runs: {error}") from error
    if unused := [name for name in providers if name not in session.get_providers()]:
        raise Misconfigured(
            f"FREKI_MODELS__PROVIDERS: {unused[0]} does not start; onnxruntime says on standard error which driver or "
            "library it needs: install that, or leave it out"
        )
    fingerprint = fingerprint_of(directory, manifest)
    return Model(manifest, fingerprint, open_text_tokenizer(directory), session, pieces=_pieces(directory, session))


def _pieces(directory: Path, session: ort.InferenceSession) -> Vocabulary | None:
    if TOKENS["passage"] not in {each.name for each in session.get_outputs()}:
        return None
    with np.load(directory / VOCABULARY, allow_pickle=False) as archive:
        return Vocabulary(archive["weights"].astype(np.float32), archive["kept"].astype(bool))


def _output_of(session: ort.InferenceSession, manifest: ModelManifest) -> str:
    names = [each.name for each in session.get_outputs()]
    wanted = "sentence_embedding" if manifest.kind is ModelKind.EMBEDDER else "logits"
    return wanted if wanted in names else names[0]


def _states_of(session: ort.InferenceSession) -> str:
    """Return the name of the output of token states, if there is one."""
    names: list[str] = [each.name for each in session.get_outputs()]
    return next((name for name in names if name != "sentence_embedding"), names[0])


def _unit(vectors: Floats) -> Floats:
    unit: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return unit


def _pool(states: Floats, mask: NDArray[np.int64], pooling: Pooling) -> Floats:
    """Pool token states, shape (texts, tokens, dim), to one vector per text, not normalised."""
    if pooling is Pooling.CLS:
        return states[:, 0]
    summed: Floats = np.einsum("btd,bt->bd", states, mask.astype(np.float32))
    return summed


@contextmanager
def _translated(action: str) -> Iterator[None]:
    """Translate errors of onnxruntime, keeping the original as the cause."""
    try:
        yield
    except TRANSIENT as error:
        raise Unavailable(f"{action}: {error}") from error
    except LASTING as error:
        raise Rejected(f"{action}: {error}") from error
