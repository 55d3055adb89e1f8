"""QueryOptions with the values that are tried: `alpha=0.3,0.4`."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from freki.operators.errors import InvalidQuery
from freki.schemas.names import record
from freki.schemas.query_options import QueryOptions
from freki.streams.evaluate.configuration import Configuration, parse_configuration, spelt

ALPHA = "alpha"
"""Of questions; short queries of keywords have their own."""
KEYWORD_ALPHA = "keyword_alpha"
LEXICAL_PIVOT = "lexical_pivot"
USUAL_BLEND = "usual_blend"
EXACT_BLEND = "exact_blend"
_TURNED_BY = {KEYWORD_ALPHA: ALPHA, USUAL_BLEND: "rerank_blend", EXACT_BLEND: "rerank_blend"}
"""QueryOptions for some questions only, by the field that turns them."""

_GRID = {
    ALPHA: ("alpha=0.3", "alpha=0.4", "alpha=0.5", "alpha=0.6", "alpha=0.7", "alpha=0.8"),
    LEXICAL_PIVOT: tuple(f"lexical_pivot={score}" for score in (30, 45, 60, 90, 130)),
    KEYWORD_ALPHA: ("alpha=0.2", "alpha=0.3", "alpha=0.4", "alpha=0.5", "alpha=0.6", "alpha=0.7"),
    "fusion": (
        *(f"fusion={kind}" for kind in ("weighted", "zscore", "tmm", "arctan")),
        *(f"fusion=rrf,rrf_k={k}" for k in (10, 30, 60)),
    ),
    "widen": ("widen=none", "widen=spelling", "widen=spelling+vector"),
    "candidates": ("candidates=50", "candidates=100", "candidates=200", "candidates=400"),
    "rerank_candidates": tuple(f"rerank_candidates={count}" for count in (0, 8, 16, 24, 32, 48)),
    USUAL_BLEND: tuple(f"rerank_blend={odds}" for odds in (0, 1, 2, 4)),
    EXACT_BLEND: tuple(f"rerank_blend={odds}" for odds in (0, 2, 4, 8)),
    "mmr_lambda": ("mmr_lambda=0.5", "mmr_lambda=0.6", "mmr_lambda=0.7", "mmr_lambda=0.8", "mmr_lambda=1"),
}
"""In the order in which a query meets them."""


@record
class Turn:
    """An option with its values, the present one among them."""

    name: str
    values: tuple[Configuration, ...]
    present: Configuration

    def concerns(self, *, keyword: bool, exact: bool) -> bool:
        """Say whether such a query is answered by this option. exact: it names a norm."""
        return _concerns(self.name, keyword=keyword, exact=exact)


def grid(defaults: QueryOptions) -> list[Turn]:
    """Give the options that are worth turning."""
    return [_turn(name, values, defaults) for name, values in _GRID.items()]


def parse_turn(text: str, defaults: QueryOptions) -> Turn:
    """Read `name=value,value`; names as in a configuration, or settings for some questions only, as `keyword_alpha`.

    The present value need not be given. Raises InvalidQuery, with what is allowed.
    """
    name, sign, values = (part.strip() for part in text.partition("="))
    if not sign or not values:
        raise InvalidQuery(f"{text!r}: write name=value,value")
    return _turn(name, [f"{_TURNED_BY.get(name, name)}={value}" for value in values.split(",")], defaults)


def _turn(name: str, texts: Sequence[str], defaults: QueryOptions) -> Turn:
    values = {value.text: value for value in (_named(name, parse_configuration(text)) for text in texts)}
    present = next((value for value in values.values() if _is_set(name, value, defaults)), None)
    if present is None:
        present = _as_set(name, values[next(iter(values))], defaults)
        values = {present.text: present, **values}
    ordered = sorted(values.values(), key=lambda value: _amount(name, value))
    if len(ordered) == 1:
        raise InvalidQuery(f"{present.text} is what is set: give another value to compare it with")
    return Turn(name=name, values=tuple(ordered), present=present)


def _named(name: str, value: Configuration) -> Configuration:
    return replace(value, text=value.text.replace(_TURNED_BY[name], name)) if name in _TURNED_BY else value


def _concerns(name: str, *, keyword: bool, exact: bool) -> bool:
    told = {
        ALPHA: not keyword,
        LEXICAL_PIVOT: not keyword,
        KEYWORD_ALPHA: keyword,
        USUAL_BLEND: not exact,
        EXACT_BLEND: exact,
    }
    return told.get(name, True)


def _default(name: str, field: str, defaults: QueryOptions) -> object:
    """Give what holds for a field where no query turns it; null where that depends on the query."""
    held = {
        defaults.held(field, keyword=keyword, exact=exact)
        for keyword, exact in product((False, True), repeat=2)
        if _concerns(name, keyword=keyword, exact=exact)
    }
    return held.pop() if len(held) == 1 else None


def _is_set(name: str, value: Configuration, defaults: QueryOptions) -> bool:
    return all(_default(name, field, defaults) == given for field, given in value.overrides.items())


def _as_set(name: str, like: Configuration, defaults: QueryOptions) -> Configuration:
    """Spell out what is set, in the fields that another value turns."""
    found = {field: _default(name, field, defaults) for field in like.overrides}
    if None in found.values():
        return Configuration(text=f"{name} as set", overrides={})
    return _named(name, parse_configuration(",".join(f"{field}={spelt(given)}" for field, given in found.items())))


def _amount(name: str, value: Configuration) -> float:
    """Order numbers by size; leave all else as it was given."""
    given = value.overrides.get(_TURNED_BY.get(name, name), 0)
    return float(given) if isinstance(given, (int, float)) else 0.0
