"""Requests and answers of embedding services.

openai: `POST {url}/embeddings {"model", "input", "encoding_format"}` answers `{"data": [{"index", "embedding"}],
"usage": {"prompt_tokens"}}`; also vLLM, llama.cpp, LiteLLM, Mistral and others. Its URL ends with a version, as
https://api.openai.com/v1.
tei: Hugging Face's text-embeddings-inference. `POST {url}/embed {"inputs", "truncate"}` answers `[[...]]`.
cohere: `POST {url}/embed {"model", "texts", "input_type", "embedding_types", "truncate"}` answers
`{"embeddings": {"float": [[...]]}, "meta": {"billed_units": {"input_tokens"}}}`; URL as https://api.cohere.com/v2.
ollama: `POST {url}/api/embed {"model", "input"}` answers `{"embeddings": [[...]], "prompt_eval_count"}`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import AllowInfNan, BaseModel, ConfigDict, Field, TypeAdapter

Number = Annotated[float, AllowInfNan(False)]  # noqa: FBT003 - as pydantic has it
Rows = list[list[Number]]


class Answer(NamedTuple):
    """Vectors in the order of the texts, and the tokens that were charged; None where the service does not say."""

    rows: Rows
    tokens: int | None


class Interface(NamedTuple):
    """One way to ask for vectors."""

    path: str
    """Appended to the URL."""
    most_texts: int
    """Most texts that each service of this kind takes in one call."""
    body: Callable[[str | None, Sequence[str], bool], Mapping[str, Any]]
    """Request for a model and texts; True: they are queries."""
    read: Callable[[bytes], Answer]
    """Raises pydantic's ValidationError for another answer."""


class _Quiet(BaseModel):
    # Errors must not repeat what a server says.
    model_config = ConfigDict(hide_input_in_errors=True)


class _Embedding(_Quiet):
    index: int = Field(ge=0)
    embedding: list[Number]


class _Usage(_Quiet):
    prompt_tokens: int | None = None


class _OpenAi(_Quiet):
    data: list[_Embedding]
    usage: _Usage | None = None


class _CohereFloats(_Quiet):
    float: Rows


class _CohereUnits(_Quiet):
    input_tokens: Number | None = None


class _CohereMeta(_Quiet):
    billed_units: _CohereUnits | None = None


class _Cohere(_Quiet):
    embeddings: _CohereFloats
    meta: _CohereMeta | None = None


class _Ollama(_Quiet):
    embeddings: Rows
    prompt_eval_count: int | None = None


_TEI = TypeAdapter(Rows, config=ConfigDict(hide_input_in_errors=True))


def _read_openai(raw: bytes) -> Answer:
    found = _OpenAi.model_validate_json(raw)
    rows = [each.embedding for each in sorted(found.data, key=lambda each: each.index)]
    return Answer(rows, found.usage.prompt_tokens if found.usage else None)


def _read_cohere(raw: bytes) -> Answer:
    found = _Cohere.model_validate_json(raw)
    tokens = found.meta.billed_units.input_tokens if found.meta and found.meta.billed_units else None
    return Answer(found.embeddings.float, None if tokens is None else int(tokens))


def _read_ollama(raw: bytes) -> Answer:
    found = _Ollama.model_validate_json(raw)
    return Answer(found.embeddings, found.prompt_eval_count)


INTERFACES: Mapping[str, Interface] = {
    "openai": Interface(
        "/embeddings",
        2048,
        lambda model, texts, _: {"model": model, "input": list(texts), "encoding_format": "float"},
        _read_openai,
    ),
    "tei": Interface(
        "/embed",
        32,
        lambda _model, texts, _: {"inputs": list(texts), "truncate": True},
        lambda raw: Answer(_TEI.validate_json(raw), None),
    ),
    "cohere": Interface(
        "/embed",
        96,
        lambda model, texts, is_query: {
            "model": model,
            "texts": list(texts),
            "input_type": "search_query" if is_query else "search_document",
            "embedding_types": ["float"],
            "truncate": "END",
        },
        _read_cohere,
    ),
    "ollama": Interface(
        "/api/embed",
        2048,
        lambda model, texts, _: {"model": model, "input": list(texts), "truncate": True},
        _read_ollama,
    ),
}
"""Interfaces by the value of FREKI_MODELS__REMOTE__INTERFACE."""
