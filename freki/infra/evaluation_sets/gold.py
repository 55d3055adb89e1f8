"""Gold questions in YAML: a list, or a mapping with `corpus:`, paths relative to the file, and `questions:`."""

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from freki.infra.evaluation_sets.beir import read_corpus
from freki.infra.sources import read_source, read_stream, walk
from freki.infra.text_files import read_text, refused
from freki.schemas import DocumentId
from freki.schemas.errors import Rejected
from freki.schemas.evaluation import CorpusDocument, EvaluationSet, Origin, Question, ReviewState, SetPart

_MAX_FILE_BYTES = 64_000_000
"""Maximum size of a document: the default limit of workers."""
_SUGGESTIONS = 3


def _not_blank(text: str) -> str:
    # Every context holds an empty text, and no heading begins with one.
    if not text.strip():
        raise ValueError("it is empty: write a text, or leave it out")
    return text


Text = Annotated[str, AfterValidator(_not_blank)]
"""A text with more than white space."""


class GoldQuestion(BaseModel):
    """A question as it stands in the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)

    question: Text
    id: str | None = None
    expected_documents: tuple[Text, ...] | None = None
    expected_spans: tuple[Text, ...] = ()
    expected_facts: tuple[Text, ...] = ()
    expected_sections: dict[Text, Annotated[tuple[Text, ...], Field(min_length=1)]] = {}
    origin: Origin | None = None
    part: SetPart | None = None
    review: ReviewState | None = None

    @model_validator(mode="after")
    def _expects_something(self) -> Self:
        if self.documents is None and not self.expected_spans and not self.expected_facts:
            raise ValueError(
                "give expected_documents, expected_sections, expected_spans or expected_facts; "
                "`expected_documents: []` says that nothing answers the question"
            )
        return self

    @property
    def documents(self) -> tuple[str, ...] | None:
        """Relevant documents, including those named by sections, each once."""
        if self.expected_documents is None:
            return tuple(self.expected_sections) or None
        return tuple(dict.fromkeys((*self.expected_documents, *self.expected_sections)))


class GoldSet(BaseModel):
    """A file with its questions unchecked."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    corpus: Path | tuple[Path, ...] | None = None
    questions: list[Any] = Field(min_length=1)

    @property
    def sources(self) -> tuple[Path, ...]:
        """Paths of the corpus as written; none for an existing index."""
        return () if self.corpus is None else self.corpus if isinstance(self.corpus, tuple) else (self.corpus,)


def read_gold(path: Path, *, corpus: Path | None = None) -> EvaluationSet:
    """Read gold questions; without a corpus of their own or of the caller, they are for an existing index.

    The corpus is as `read_documents` takes it. Raises Rejected, with the line, for an invalid question, or one that
    expects a document outside of the corpus, unless it was dropped in review.
    """
    gold, node = parse_gold(read_text(path), path)
    lines = [item.start_mark.line + 1 for item in node.value]
    where = [path.parent / each for each in gold.sources] or ([] if corpus is None else [corpus])
    documents = read_documents(where) if where else None
    if documents == ():
        raise Rejected(f"{path}: no documents in {', '.join(map(str, where))}, so that nothing can be found")
    known = None if documents is None else sorted(document.document_id for document in documents)
    questions: dict[str, Question] = {}
    for number, (given, line) in enumerate(zip(gold.questions, lines, strict=True), start=1):
        question = _question(given, number, known, f"{path}, line {line}")
        if question.question_id in questions:
            raise Rejected(f"{path}, line {line}: id {question.question_id!r} is there twice")
        questions[question.question_id] = question
    return EvaluationSet(name=path.stem, corpus=documents, questions=tuple(questions.values()))


def parse_gold(text: str, path: Path) -> tuple[GoldSet, yaml.SequenceNode]:
    """Return the content of a file, and the node of its questions. Raises Rejected; path: for errors."""
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        given = None if node is None else loader.construct_document(node)
        gold = GoldSet.model_validate({"questions": given} if isinstance(given, list) else given)
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f", line {error.problem_mark.line + 1}"
        raise Rejected(f"{path}{line}: {error.problem}") from error
    except yaml.YAMLError as error:
        raise Rejected(f"{path}: {error}") from error
    except RecursionError as error:
        raise Rejected(f"{path}: brackets or lists are nested too deeply") from error
    except ValidationError as error:
        raise refused(error, str(path)) from error
    if isinstance(node, yaml.MappingNode):
        node = next(value for key, value in node.value if key.value == "questions")
    return gold, node


class _Loader(yaml.SafeLoader):  # type: ignore[misc] # yaml has no types
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> object:  # noqa: FBT001, FBT002
        """Return a mapping; a key that is there twice is an error with its line: only its last value would count."""
        names = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for place, key in enumerate(names):
            if any(key.value == earlier.value for earlier in names[:place]):
                problem = f"{key.value}: is there twice"
                raise yaml.constructor.ConstructorError(problem=problem, problem_mark=key.start_mark)
        return super().construct_mapping(node, deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> object:  # noqa: FBT001, FBT002 - of the library
        """Return the value of a node; one that is none, such as the date 2024-13-01, is an error with its line."""
        try:
            return super().construct_object(node, deep)
        except ValueError as error:
            problem = f"{error}: write text that looks like a date or number in quotes"
            raise yaml.constructor.ConstructorError(problem=problem, problem_mark=node.start_mark) from error


def parse_question(given: object, place: str) -> GoldQuestion:
    """Return a question of a file. Raises Rejected; place: file and line, for errors."""
    try:
        return GoldQuestion.model_validate(given)
    except ValidationError as error:
        raise refused(error, place) from error


def _question(given: object, number: int, known: list[DocumentId] | None, place: str) -> Question:
    gold = parse_question(given, place)
    for name in gold.documents or ():
        if known is not None and name not in known and gold.review is not ReviewState.DROPPED:
            near = get_close_matches(name, known, n=_SUGGESTIONS, cutoff=0.3) or known[:_SUGGESTIONS]
            raise Rejected(f"{place}: the corpus has no document {name!r}; it has {', '.join(near)}")
    return Question(
        question_id=gold.id or str(number),
        text=gold.question,
        judgements=None if gold.documents is None else {DocumentId(name): 1 for name in gold.documents},
        spans=gold.expected_spans,
        facts=gold.expected_facts,
        sections={DocumentId(name): headings for name, headings in gold.expected_sections.items()},
        part=gold.part,
        review=gold.review,
    )


def read_documents(paths: Sequence[Path]) -> tuple[CorpusDocument, ...]:
    """Read folders and files with the ids of `freki publish`, recorded streams, or `corpus.jsonl` files.

    Of a stream the final state counts. Raises Rejected for paths that cannot be read, and for two documents with the
    same id.
    """
    streams = [path for path in paths if path.name.endswith((".jsonl", ".jsonl.zst"))]
    documents = [
        CorpusDocument(
            document_id=file.document_id,
            name=file.path.name,
            media_type=file.media_type,
            content=read_source(file, max_bytes=_MAX_FILE_BYTES),
        )
        for file in walk([path for path in paths if path not in streams])
    ]
    for path in streams:
        documents += _last_states(path) if _is_stream(path) else read_corpus(path)
    seen: set[DocumentId] = set()
    for document in documents:
        if document.document_id in seen:
            raise Rejected(f"document {document.document_id} is in two of {', '.join(map(str, paths))}")
        seen.add(document.document_id)
    return tuple(documents)


def _is_stream(path: Path) -> bool:
    """Return whether the first line is a change of a document, not a document."""
    return '"op"' in read_text(path).partition("\n")[0]


def _last_states(path: Path) -> tuple[CorpusDocument, ...]:
    documents: dict[str, CorpusDocument] = {}
    for change in read_stream(path):
        if change.content is None:
            documents.pop(change.document_id, None)
            continue
        documents[change.document_id] = CorpusDocument(
            document_id=DocumentId(change.document_id),
            name=change.name,
            media_type=change.media_type,
            content=change.content,
        )
    return tuple(documents.values())
