"""Try to read texts from their vectors, token states and terms: `python -m bench.inversion FILE...`.

A file has one {"passage", "title"} per line, as `freki.training` reads it. The passages of a quarter of the titles are
hidden: of them the attacker has what a store holds. The others are known to the attacker, with text.
"""

import asyncio
import json
import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from bench.inversion import attacks
from freki.infra.models import open_embedder
from freki.infra.models.cache import obtain
from freki.infra.models.descriptions import ModelKind
from freki.infra.models.manifest import TOKENIZER
from freki.infra.models.tokenizer import open_tokenizer
from freki.infra.settings import Settings
from freki.infra.telemetry.provenance import provenance
from freki.infra.text_files import read_text
from freki.operators.analyse_text import analyse_text
from freki.schemas.arrays import Floats
from freki.streams.ports import Embedder

_MOST_CHARS = 1_200
_SENTENCE = re.compile(r"(?<=[.!?;]) +(?=[A-ZÄÖÜ(])")
_LEAST_WORDS = 8
_NAMED = 10
"""Terms that attacks name of each text."""
_VOCABULARY = 5_000
_MOST_STATES = 120_000
_RANKS = 100


class Side(NamedTuple):
    """Passages, with what is stored of them."""

    texts: Sequence[str]
    vectors: Floats
    bags: attacks.Bags
    states: Floats
    """(tokens, token_dim), of the first passages."""
    tokens: NDArray[np.int64]
    """Id of the token of each state."""


def main() -> None:
    """Attack, and print the shares."""
    arguments = _arguments()
    sys.stdout.write("\n".join(asyncio.run(_attack(arguments))) + "\n")


async def _attack(arguments: Namespace) -> list[str]:
    settings = Settings().models
    halves = _halves(arguments)
    async with open_embedder(settings) as embedder:
        directory = await asyncio.to_thread(obtain, settings, settings.embedder, ModelKind.EMBEDDER)
        tokenizer = open_tokenizer(directory / TOKENIZER)

        async def side(texts: Sequence[str]) -> Side:
            return await _side(embedder, tokenizer, texts, language=arguments.language)

        hidden, known = await side(halves[0]), await side(halves[1])
        vectors = [await _embedded(embedder, [_guess(text, kept) for text in hidden.texts]) for kept in _KEPT]
        fingerprint = embedder.fingerprint
    names = ", ".join(path.name for path in arguments.files)
    pool, right = hidden.vectors, range(len(hidden.texts))
    lines = [
        f"{len(hidden.texts)} hidden and {len(known.texts)} known passages of {names}",
        f"{fingerprint}; {', '.join(f'{name} {value}' for name, value in provenance().items())}",
        "",
        "| attack | result |",
        "| --- | --- |",
    ]
    for kept, guessed in zip(_KEPT, vectors, strict=True):
        share = attacks.rank_one(guessed, pool, right)
        lines.append(f"| vector: {_NAMES[kept]} is guessed: its passage is the nearest | {share:.0%} |")
    for name, found in (
        (
            f"the {_NAMED} most frequent terms of known texts",
            attacks.by_frequency(hidden.bags, known.bags, most=_NAMED),
        ),
        (
            f"the {_NAMED} rarest terms of the nearest known text",
            attacks.by_neighbour(hidden.vectors, hidden.bags, known.vectors, known.bags, most=_NAMED),
        ),
        (
            f"{_NAMED} terms by a linear map",
            attacks.by_linear_map(
                hidden.vectors, hidden.bags, known.vectors, known.bags, vocabulary=_VOCABULARY, most=_NAMED
            ),
        ),
    ):
        lines.append(f"| vector: {name} | {found.precision:.0%} are right, {found.recall:.0%} of the text's terms |")
    if len(hidden.states) and len(known.states):
        lines += _of_states(hidden, known)
    ranked = attacks.by_rank_of_frequency(hidden.bags, known.bags, most=_RANKS)
    lines.append(
        f"| keyed terms: the {_RANKS} most frequent, by the order of their frequencies | {ranked:.0%} are right |"
    )
    for share in (0.01, 0.1):
        every, rare = attacks.by_known_rows(hidden.bags, share=share)
        lines.append(
            f"| keyed terms: the texts of {share:.0%} of the rows are known | at most {every:.0%} of the terms of "
            f"others, {rare:.0%} of the rare ones |"
        )
    lines.append("| plain terms | all, in their order |")
    return lines


def _of_states(hidden: Side, known: Side) -> list[str]:
    same = attacks.by_token_states(
        attacks.quantised(hidden.states), hidden.tokens, attacks.quantised(known.states), known.tokens
    )
    counts = np.bincount(known.tokens, minlength=int(max(known.tokens.max(), hidden.tokens.max())) + 1)
    rare = counts[hidden.tokens] <= np.quantile(counts[hidden.tokens], 0.5)
    every, rarer = same.mean(), same[rare].mean()
    return [
        f"| plain token states: token of the nearest known state | {every:.0%} right, {rarer:.0%} of the rarer half |"
    ]


async def _side(embedder: Embedder, tokenizer: Tokenizer, texts: Sequence[str], *, language: str) -> Side:
    vectors, states, tokens = [], [], []
    held = 0
    for start in range(0, len(texts), 64):
        batch = texts[start : start + 64]
        found = await embedder.embed_passages(batch)
        vectors.append(found.vectors)
        if not found.tokens or held >= _MOST_STATES:
            continue
        for encoding, rows in zip(
            tokenizer.encode_batch_fast(list(batch), add_special_tokens=False), found.tokens, strict=True
        ):
            # Texts that were cut at the model's limit have fewer states than tokens.
            count = min(len(encoding.ids), len(rows))
            states.append(rows[:count])
            tokens.append(np.asarray(encoding.ids[:count], np.int64))
            held += count
    return Side(
        texts,
        np.concatenate(vectors),
        [frozenset(analyse_text(text, language=language).split()) for text in texts],
        np.concatenate(states) if states else np.empty((0, 0), np.float32),
        np.concatenate(tokens) if tokens else np.empty(0, np.int64),
    )


async def _embedded(embedder: Embedder, texts: Sequence[str]) -> Floats:
    rows = [(await embedder.embed_passages(texts[start : start + 64])).vectors for start in range(0, len(texts), 64)]
    found: Floats = np.concatenate(rows)
    return found


_KEPT = (1.0, 0.5, 0.0)
_NAMES = {1.0: "the passage", 0.5: "every other word of it", 0.0: "its first sentence"}
"""What is guessed, by the share of its words; 0: the first sentence."""


def _guess(text: str, kept: float) -> str:
    if kept == 0:
        return next((each for each in _SENTENCE.split(text) if len(each.split()) >= _LEAST_WORDS), text)
    words = text.split()
    return text if kept == 1 else " ".join(words[::2])


def _halves(arguments: Namespace) -> tuple[list[str], list[str]]:
    """Return hidden and known passages; those of one title are on one side."""
    hidden, known = dict[str, None](), dict[str, None]()
    for path in arguments.files:
        for text, title in _passages(path):
            digest = blake2b((title or text[:40]).encode(), digest_size=4).digest()
            (hidden if digest[0] % 4 == 0 else known).setdefault(text)
    return list(hidden)[: arguments.hidden], list(known)[: arguments.known]


def _passages(path: Path) -> Iterator[tuple[str, str]]:
    for line in read_text(path).splitlines():
        row = json.loads(line)
        text = " ".join(str(row["passage"]).split())[:_MOST_CHARS]
        if len(text.split()) >= _LEAST_WORDS:
            # Sections of a law belong together.
            yield text, str(row.get("title", "")).split(" § ")[0]


def _arguments() -> Namespace:
    parser = ArgumentParser(prog="python -m bench.inversion", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, help="Files NAME.jsonl.zst")
    parser.add_argument("--language", default="de", help="Their language, for the analyser (%(default)s)")
    parser.add_argument("--hidden", type=int, default=1_000, help="Most hidden passages (%(default)s)")
    parser.add_argument("--known", type=int, default=5_000, help="Most known passages (%(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
