"""Configurations of an ablation: as set, without each step, bare searches, all steps on."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product

from freki.operators.errors import InvalidQuery
from freki.schemas import RequestKind, RerankerChoice, Widening
from freki.schemas.names import record
from freki.schemas.query_options import QueryOptions
from freki.streams.evaluate.configuration import Configuration, format_value, parse_configuration
from freki.streams.retrieve.steps.rewrite import is_written

AS_SET = "as set"
ALL_ON = (
    f"widen={'+'.join(kind for kind in Widening if not is_written(kind))}",
    "widen_when=always",
    "expand_documents=3",
)
"""Further options of the row with all steps on; none of them needs a language model."""


@record
class AblatedStep:
    """Step of retrieval that can be switched off."""

    name: str
    off: str
    """Option that switches the step off."""
    is_on: Callable[[QueryOptions], bool]
    on: str = ""
    """Option that switches the step on; empty: it needs a value that only the user knows."""


@record
class AblationRow:
    """Configuration to measure."""

    title: str
    step: str
    """Step left out; empty: not a single step."""
    configuration: Configuration


def _reranks(options: QueryOptions) -> bool:
    return options.reranker is not RerankerChoice.NONE


def _blends(options: QueryOptions) -> bool:
    return _reranks(options) and any(options.blend_for(exact=exact) > 0 for exact in (False, True))


_STEPS = (
    AblatedStep(name="reranking", off="reranker=none", on="reranker=auto", is_on=_reranks),
    AblatedStep(name="blending", off="rerank_blend=0", is_on=_blends),
    AblatedStep(
        name="diversity", off="mmr_lambda=1", on="mmr_lambda=0.7", is_on=lambda options: options.mmr_lambda < 1
    ),
    AblatedStep(name="further searches", off="widen=none", is_on=lambda options: bool(options.widen)),
    AblatedStep(name="exact terms", off="exact=false", on="exact=true", is_on=lambda options: options.exact),
    AblatedStep(
        name="types by examples", off="prototypes=false", on="prototypes=true", is_on=lambda options: options.prototypes
    ),
    AblatedStep(name="folding", off="fold_at=1", is_on=lambda options: options.fold_at < 1),
    AblatedStep(name="limit per document", off="per_document=0", is_on=lambda options: options.per_document > 0),
    AblatedStep(name="expansion", off="expand_documents=0", is_on=lambda options: options.expand_documents > 0),
    AblatedStep(name="judgements", off="feedback=0", is_on=lambda options: options.feedback > 0),
)
"""Steps in order of display."""
_OF_CONTEXTS = (
    AblatedStep(name="sections", off="parents=false", on="parents=true", is_on=lambda options: options.parents),
    AblatedStep(name="neighbours", off="neighbours=0", is_on=lambda options: options.neighbours > 0),
)
"""Steps that change contexts but no ranking: only figures of contexts show their gain."""


def rows(defaults: QueryOptions, also: Sequence[str] = (), *, contexts: bool = False) -> list[AblationRow]:
    """Return the distinct rows to measure: the settings first, then configurations that differ from them.

    also: further configurations, as for `freki eval`. contexts: whether questions have figures of contexts.
    Raises InvalidQuery for a configuration that is malformed or equals the settings.
    """
    steps = [*_STEPS, *(_OF_CONTEXTS if contexts else ())]
    found = [AblationRow(title=AS_SET, step="", configuration=parse_configuration(""))]
    for row in (*_without(steps, defaults), *_ends(steps, defaults), *_given(also, defaults)):
        if differs(row.configuration, defaults) and all(
            row.configuration.overrides != each.overrides for each in _of(found)
        ):
            found.append(row)
    return found


def differs(configuration: Configuration, defaults: QueryOptions) -> bool:
    """Return whether a configuration changes the options of any query."""
    return any(
        value != defaults.held(name, keyword=keyword, exact=exact)
        for name, value in configuration.overrides.items()
        for keyword, exact in product((False, True), repeat=2)
    )


def _without(steps: Iterable[AblatedStep], defaults: QueryOptions) -> Iterator[AblationRow]:
    for step in steps:
        if step.is_on(defaults):
            yield AblationRow(title=f"without {step.name}", step=step.name, configuration=parse_configuration(step.off))


def _ends(steps: Sequence[AblatedStep], defaults: QueryOptions) -> Iterator[AblationRow]:
    off = [step.off for step in steps if step.is_on(defaults)]
    on = [step.on for step in steps if step.on and not step.is_on(defaults)]
    yield _row("hybrid search alone", off)
    # Use request kinds: with a weight of 0 the other search would still run.
    for title, kind in (
        ("dense search alone", RequestKind.SEMANTIC_SEARCH),
        ("BM25 alone", RequestKind.KEYWORD_SEARCH),
    ):
        yield _row(title, [f"kind={kind}", *off, *_around(off, defaults)])
    yield _row("all on", [*on, *ALL_ON])


def _around(off: Iterable[str], defaults: QueryOptions) -> Iterator[str]:
    """Return the options for sections and neighbours as set: these request kinds would omit both."""
    named = [text.partition("=")[0] for text in off]
    held = {"parents": format_value(defaults.parents), "neighbours": format_value(defaults.neighbours)}
    return (f"{name}={value}" for name, value in held.items() if name not in named)


def _given(also: Iterable[str], defaults: QueryOptions) -> Iterator[AblationRow]:
    for text in also:
        row = _row("", [text])
        if not differs(row.configuration, defaults):
            raise InvalidQuery(f"{text!r} equals the settings: give an option another value")
        yield AblationRow(title=row.configuration.text, step="", configuration=row.configuration)


def _row(title: str, texts: Iterable[str]) -> AblationRow:
    return AblationRow(title=title, step="", configuration=parse_configuration(",".join(texts)))


def _of(found: Iterable[AblationRow]) -> Iterator[Configuration]:
    return (row.configuration for row in found)
