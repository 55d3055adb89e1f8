"""Our names of attributes against those of the packages that define them."""

import openinference.semconv.trace as openinference
from opentelemetry.semconv._incubating.attributes import error_attributes, gen_ai_attributes, messaging_attributes

from freki.streams.observe import attributes

OURS = {name: value for name, value in vars(attributes).items() if name.isupper()}
THEIRS = {
    name: getattr(value, "value", value)
    for source in (
        error_attributes,
        gen_ai_attributes,
        messaging_attributes,
        openinference.SpanAttributes,
        openinference.DocumentAttributes,
        openinference.EmbeddingAttributes,
        openinference.RerankerAttributes,
        openinference.OpenInferenceSpanKindValues,
    )
    for name, value in vars(source).items()
    if name.isupper()
}


def test_names_of_the_conventions_are_as_these_have_them() -> None:
    others = {name: value for name, value in OURS.items() if not name.startswith("FREKI_")}

    assert others == {name: THEIRS.get(name) for name in others}


def test_names_of_our_own_stand_under_our_name() -> None:
    assert all(value.startswith("freki.") for name, value in OURS.items() if name.startswith("FREKI_"))
