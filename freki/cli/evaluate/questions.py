"""`freki questions`: propose questions that documents answer, for `freki eval`, and review them by hand."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
from rich.text import Text

from freki.cli.arguments import ArgumentGroup, expanded, given_path
from freki.cli.bars import bars
from freki.cli.context import command, console, fail, load_settings
from freki.cli.evaluate.review import review_file
from freki.cli.show import building
from freki.cli.sources import show_first
from freki.cli.words import counted
from freki.infra.evaluation_sets.gold import GoldQuestion, read_documents
from freki.infra.evaluation_sets.gold_file import GoldFile
from freki.infra.llm.client import LlmClient
from freki.infra.llm.ledger import TokenLedger
from freki.infra.models import ensure_built, open_token_counter
from freki.infra.settings import Settings
from freki.operators.evaluate import share_found, stands_in
from freki.operators.propose_questions import (
    Proposal,
    ProposalDocument,
    SampleLimits,
    choose,
    divide,
    near_copies,
    proposal_id,
    propose_questions,
    question_key,
    without_ambiguous,
)
from freki.schemas import DocumentId, TenantId
from freki.schemas.errors import Rejected
from freki.schemas.evaluation import CorpusDocument, Origin, ReviewState, SetPart
from freki.streams.evaluate.propose import OutlinedDocuments, ask_for_questions, outline_documents
from freki.streams.wire.parsing import open_outliner

questions_app = typer.Typer(
    help="Questions with known answers, proposed from your own documents, for `freki eval`.", no_args_is_help=True
)
SUFFIXES = {".yaml", ".yml"}
UNCHOSEN = "more than --per-document and --most allow"


@dataclass(frozen=True, kw_only=True)
class MakeArguments(ArgumentGroup):
    """Options of `freki questions make`."""

    out: Annotated[
        Path, typer.Option(parser=given_path, help="File of the set, .yaml; of an existing one all decisions stay")
    ]
    per_document: Annotated[int, typer.Option(min=1, help="Maximum number of questions about a document")] = 5
    most: Annotated[int, typer.Option(min=1, help="Maximum number of questions of the set")] = 200
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sample of questions")] = 0
    llm: Annotated[
        bool, typer.Option("--llm", help="Let the language model of FREKI_LLM__URL write questions about passages too")
    ] = False


@questions_app.command("make")
@command
@expanded
async def make(
    sources: Annotated[
        list[Path],
        typer.Argument(
            parser=given_path, help="Files, folders or recorded streams, as for `freki publish`", show_default=False
        ),
    ],
    *,
    given: MakeArguments,
) -> None:
    """Propose questions from headings, definitions and abbreviations of documents, half for tuning, half for tests."""
    settings = load_settings()
    if given.out.suffix not in SUFFIXES:
        fail(f"--out {given.out}: name a file that ends in .yaml", code=2)
    if given.llm and not (settings.llm.url and settings.llm.model):
        fail("--llm needs a language model: set FREKI_LLM__URL and FREKI_LLM__MODEL", code=2)
    for source in sources:
        if source.is_dir() and given.out.resolve().is_relative_to(source.resolve()):
            fail(f"--out {given.out} would be a document itself: write it outside of {source}", code=2)
    file = _existing(given.out, sources)
    corpus = read_documents(sources)
    if not corpus:
        fail(f"no files in {', '.join(map(str, sources))}: give files, or folders that hold some", code=2)
    outlined = await _outlined(settings, corpus)
    show_first(outlined.refused, each="not read", together="documents were not read")
    earlier = [] if file is None else file.questions
    proposals, left_out = await _proposed(settings, outlined.documents, earlier, given)
    added = _entries(proposals, outlined.documents, earlier)
    if not added and file is None:
        _show_left_out(left_out)
        why = "; see above what was left out" if left_out.total() or outlined.refused else ""
        fail(f"no question could be made from {counted(len(corpus), 'document')}{why}")
    if file is None:
        file = GoldFile.create(given.out, _relative(sources, given.out), added)
    else:
        file.append(added)
    file.save()
    _show_made(file, len(added), left_out)
    _show_gone(file, corpus)
    _show_outdated(file, outlined.documents)


@questions_app.command("review")
@command
async def review(
    file: Annotated[
        Path, typer.Argument(parser=given_path, help="Set made by `freki questions make`", show_default=False)
    ],
) -> None:
    """Show each open question with what should answer it, and ask whether to keep, drop or reword it.

    Each decision is saved at once: stop at any time, and go on later.
    """
    await review_file(load_settings(), file)


def _existing(out: Path, sources: Sequence[Path]) -> GoldFile | None:
    """Return the set that is there already; end the command if it is something else, or of other documents."""
    if not out.exists():
        return None
    try:
        file = GoldFile.read(out)
    except Rejected as error:
        fail(f"--out {out} exists and is no set of gold questions: choose another file ({error})", code=2)
    corpus = {(out.parent / each).resolve() for each in file.gold.sources}
    if corpus != {source.resolve() for source in sources}:
        named = ", ".join(map(str, file.gold.sources)) or "the running index"
        fail(f"--out {out} has the corpus {named}: give the same documents, or choose another file", code=2)
    return file


def _relative(sources: Sequence[Path], out: Path) -> list[Path]:
    """Return sources relative to the folder of the set."""
    return [Path(os.path.relpath(source.resolve(), out.parent.resolve())) for source in sources]


async def _outlined(settings: Settings, corpus: Sequence[CorpusDocument]) -> OutlinedDocuments:
    """Outline documents as workers do, but without splitting by similarity: no section changes by that."""
    unsplit = settings.chunking.model_copy(update={"least_similarity": None, "breakpoint_percentile": None})
    with building() as progress:
        await ensure_built(settings.models, progress)
    count_tokens = await open_token_counter(settings.models)
    async with open_outliner(settings.model_copy(update={"chunking": unsplit}), count_tokens) as outliner:
        with bars() as progress:
            bar = progress.add_task("read", total=len(corpus))
            advance = partial(progress.advance, bar)
            return await outline_documents(corpus, outliner, tenant=TenantId(settings.tenant), advance=advance)


async def _proposed(
    settings: Settings, documents: Sequence[ProposalDocument], earlier: Sequence[GoldQuestion], given: MakeArguments
) -> tuple[list[Proposal], Counter[str]]:
    """Return the questions to add, and how many were left out for which reason."""
    found, left_out = propose_questions(documents)
    standing = _standing(earlier)
    existing = Counter(DocumentId(name) for each in standing for name in each.documents or ())
    room = max(0, given.most - len(standing))
    limits = SampleLimits(per_document=given.per_document, most=room, seed=given.seed, existing=existing)
    written: list[Proposal] = []
    if given.llm:
        ledger = TokenLedger(settings.llm.ledger, most=settings.llm.max_tokens_day)
        async with LlmClient(settings.llm) as llm:
            with bars() as progress:
                bar = progress.add_task("asked the language model", total=None)
                written = await ask_for_questions(
                    documents,
                    llm,
                    ledger,
                    limits=limits,
                    left_out=left_out,
                    progress=lambda done, total: progress.update(bar, completed=done, total=total),
                )
    known = {each.id for each in earlier}
    taken = {question_key(each.question): DocumentId((each.documents or ("",))[0]) for each in earlier}
    fresh = [each for each in (*found, *written) if proposal_id(each) not in known]
    distinct = [each for each in without_ambiguous(fresh, left_out, taken=taken) if each.key not in taken]
    chosen = choose(distinct, limits)
    left_out[UNCHOSEN] += len(distinct) - len(chosen)
    return chosen, left_out


def _entries(
    proposals: Sequence[Proposal], documents: Sequence[ProposalDocument], earlier: Sequence[GoldQuestion]
) -> list[dict[str, Any]]:
    """Return questions as they are written."""
    known = {DocumentId(name): each.part for each in earlier if each.part for name in each.documents or ()}
    parts = divide((each.document_id for each in proposals), near_copies(documents), known)
    return [_entry(each, parts[each.document_id]) for each in proposals]


def _entry(proposal: Proposal, part: SetPart) -> dict[str, Any]:
    expected: dict[str, Any] = {"expected_documents": [str(proposal.document_id)]}
    if proposal.sections:
        expected["expected_sections"] = {str(proposal.document_id): list(proposal.sections)}
    if proposal.spans:
        expected["expected_spans"] = list(proposal.spans)
    return {
        "question": proposal.question,
        "id": proposal_id(proposal),
        "origin": proposal.origin.value,
        **expected,
        "part": part.value,
        "review": ReviewState.OPEN.value,
    }


def _standing(questions: Sequence[GoldQuestion]) -> list[GoldQuestion]:
    """Return the questions that nobody dropped."""
    return [each for each in questions if each.review is not ReviewState.DROPPED]


def _show_made(file: GoldFile, added: int, left_out: Counter[str]) -> None:
    standing = _standing(file.questions)
    about = counted(len({name for each in standing for name in each.documents or ()}), "document")
    parts = Counter(each.part for each in standing)
    _show_left_out(left_out)
    console.print(
        Text(f"{file.path}: {counted(len(standing), 'question')} about {about}, {added} of them new", style="bold"),
        soft_wrap=True,
    )
    console.print(f"  for tuning {parts[SetPart.TUNING]}, for tests {parts[SetPart.TEST]}")
    origins = Counter(each.origin for each in standing)
    made = ", ".join(f"{origin} {origins[origin]}" for origin in Origin if origins[origin])
    console.print(f"  from {made}" + f", by hand {origins[None]}" * bool(origins[None]), highlight=False)
    if any(each.review is ReviewState.OPEN for each in standing):
        console.print(Text(f"Read them next: freki questions review {quote(str(file.path))}"), soft_wrap=True)


def _show_left_out(left_out: Counter[str]) -> None:
    found = [(count, reason) for reason, count in left_out.most_common() if count]
    if found:
        console.print("Left out:")
    for count, reason in found:
        console.print(Text(f"  {count:>5,} {reason}", style="dim"), soft_wrap=True)


def _show_gone(file: GoldFile, corpus: Sequence[CorpusDocument]) -> None:
    """Name questions about documents that are gone: `freki eval` refuses them."""
    there = {document.document_id for document in corpus}
    gone = [
        f"{each.question} ({name})"
        for each in _standing(file.questions)
        for name in each.documents or ()
        if name not in there
    ]
    show_first(gone, each="its document is gone, drop it", together="questions are about documents that are gone")


def _show_outdated(file: GoldFile, documents: Sequence[ProposalDocument]) -> None:
    """Name questions that expect what their documents do not say any more: no answer can hold it."""
    by_id = {document.document_id: document for document in documents}
    outdated = [
        f"{each.question} ({missing})" for each in _standing(file.questions) for missing in _missing(each, by_id)
    ]
    show_first(
        outdated,
        each="its document has changed, correct or drop it",
        together="expectations are not in the documents any more",
    )


def _missing(question: GoldQuestion, documents: Mapping[DocumentId, ProposalDocument]) -> Iterator[str]:
    """Yield the expected quotations and sections that the documents of a question do not have."""
    there = [documents[DocumentId(name)] for name in question.documents or () if name in documents]
    text = " ".join(passage.text for document in there for passage in document.passages)
    for span in question.expected_spans if there else ():
        if not share_found([span], text):
            yield f"{', '.join(document.document_id for document in there)} does not say: {span}"
    for document in there:
        expected = question.expected_sections.get(document.document_id, ())
        if expected and not any(stands_in(passage.heading_path, expected) for passage in document.passages):
            yield f"{document.document_id} has no section {' or '.join(expected)}"
