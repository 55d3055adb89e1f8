"""Query options with the values to try: `alpha=0.3,0.4`."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from freki.operators.errors import InvalidQuery
from freki.schemas.names import record
from freki.schemas.query_options import QueryOptions
from freki.streams.evaluate.configuration import Configuration, format_value, parse_configuration

ALPHA = "alpha"
"""Alpha of all queries but keyword queries."""
KEYWORD_ALPHA = "keyword_alpha"
LEXICAL_PIVOT = "lexical_pivot"
USUAL_BLEND = "usual_blend"
EXACT_BLEND = "exact_blend"
_FIELD_OF = {KEYWORD_ALPHA: ALPHA, USUAL_BLEND: "rerank_blend", EXACT_BLEND: "rerank_blend"}
"""Query field by option, for options that apply to some queries only."""

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
"""Options in the order of the pipeline."""


@record
class TunedOption:
    """Option with its values, including the present one."""

    name: str
    values: tuple[Configuration, ...]
    present: Configuration

    def concerns(self, *, keyword: bool, exact: bool) -> bool:
        """Return whether the option applies to such a query. exact: the query cites a section of a law."""
        return _concerns(self.name, keyword=keyword, exact=exact)


def grid(defaults: QueryOptions) -> list[TunedOption]:
    """Return the built-in options and values to try."""
    return [_tuned_option(name, values, defaults) for name, values in _GRID.items()]


def parse_tuned_option(text: str, defaults: QueryOptions) -> TunedOption:
    """Parse `name=value,value`; the name is a query option, or a setting for some queries only, as `keyword_alpha`.

    The present value is added if missing. Raises InvalidQuery, naming what is allowed.
    """
    name, sign, values = (part.strip() for part in text.partition("="))
    if not sign or not values:
        raise InvalidQuery(f"{text!r}: write name=value,value")
    return _tuned_option(name, [f"{_FIELD_OF.get(name, name)}={value}" for value in values.split(",")], defaults)


def _tuned_option(name: str, texts: Sequence[str], defaults: QueryOptions) -> TunedOption:
    values = {value.text: value for value in (_named(name, parse_configuration(text)) for text in texts)}
    present = next((value for value in values.values() if _is_set(name, value, defaults)), None)
    if present is None:
        present = _as_set(name, values[next(iter(values))], defaults)
        values = {present.text: present, **values}
    ordered = sorted(values.values(), key=lambda value: _amount(name, value))
    if len(ordered) == 1:
        raise InvalidQuery(f"{present.text} is the value set: give another value to compare it with")
    return TunedOption(name=name, values=tuple(ordered), present=present)


def _named(name: str, value: Configuration) -> Configuration:
    return replace(value, text=value.text.replace(_FIELD_OF[name], name)) if name in _FIELD_OF else value


def _concerns(name: str, *, keyword: bool, exact: bool) -> bool:
    applies = {
        ALPHA: not (keyword or exact),
        LEXICAL_PIVOT: not (keyword or exact),
        KEYWORD_ALPHA: keyword or exact,
        USUAL_BLEND: not exact,
        EXACT_BLEND: exact,
    }
    return applies.get(name, True)


def _default(name: str, field: str, defaults: QueryOptions) -> object:
    """Return the default of a field; None if it depends on the query."""
    held = {
        defaults.held(field, keyword=keyword, exact=exact)
        for keyword, exact in product((False, True), repeat=2)
        if _concerns(name, keyword=keyword, exact=exact)
    }
    return held.pop() if len(held) == 1 else None


def _is_set(name: str, value: Configuration, defaults: QueryOptions) -> bool:
    return all(_default(name, field, defaults) == given for field, given in value.overrides.items())


def _as_set(name: str, like: Configuration, defaults: QueryOptions) -> Configuration:
    """Return the present value as a configuration of the same fields as another value."""
    found = {field: _default(name, field, defaults) for field in like.overrides}
    if None in found.values():
        return Configuration(text=f"{name} as set", overrides={})
    return _named(
        name, parse_configuration(",".join(f"{field}={format_value(given)}" for field, given in found.items()))
    )


def _amount(name: str, value: Configuration) -> float:
    """Return the sort key: numbers by size, all else in the given order."""
    given = value.overrides.get(_FIELD_OF.get(name, name), 0)
    return float(given) if isinstance(given, (int, float)) else 0.0
