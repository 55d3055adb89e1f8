"""Questions proposed from documents: outlines as workers make them, operators, and a language model if wanted."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from freki.operators.ask_llm import GOLD_TOKENS, GoldAnswer, Refusal, gold_prompt, read_gold_answer
from freki.operators.chunk import sentence_ends
from freki.operators.define import find_definitions
from freki.operators.detect_language import may_be_in
from freki.operators.errors import OperatorError
from freki.operators.propose_questions import (
    Proposal,
    ProposalDocument,
    ProposalHeading,
    ProposalPassage,
    SampleLimits,
    choose_passages,
    section_of,
)
from freki.schemas import ChunkKind, DocumentId, NoCompletion, TenantId, Timestamp
from freki.schemas.errors import Rejected
from freki.schemas.evaluation import CorpusDocument, Origin
from freki.schemas.names import record
from freki.streams.evaluate.corpus import change_of
from freki.streams.ingest.outline import Outline, Outliner
from freki.streams.ports import Llm, TokenBudget
from freki.streams.token_estimate import most_tokens

_AT_ONCE: Final = 16
"""Passages that a model is asked about before progress is reported; the client decides how many calls run at once."""

UNANSWERED = "passages for which the language model gave no answer"
UNPAID = "passages left when the tokens of the day were spent (FREKI_LLM__MAX_TOKENS_DAY)"
LANGUAGE = "questions by the model in another language"


@record
class OutlinedDocuments:
    """Documents as questions are made from them."""

    documents: tuple[ProposalDocument, ...]
    refused: tuple[str, ...]
    """Why documents could not be read, one line each."""


async def outline_documents(
    corpus: Sequence[CorpusDocument], outliner: Outliner, *, tenant: TenantId, advance: Callable[[], None]
) -> OutlinedDocuments:
    """Parse and chunk documents as workers do; those that workers would reject are named instead."""
    documents: list[ProposalDocument] = []
    refused: list[str] = []
    for each in corpus:
        try:
            outline = await outliner(change_of(each, tenant, Timestamp(0)), each.content)
        except (OperatorError, Rejected) as error:
            refused.append(f"{each.document_id}: {str(error).removeprefix(f'{each.name}: ')}")
        else:
            documents.append(_document(each.document_id, outline))
        advance()
    return OutlinedDocuments(documents=tuple(documents), refused=tuple(refused))


def _document(document_id: DocumentId, outline: Outline) -> ProposalDocument:
    leaves = [chunk for chunk in outline.chunks if chunk.kind is not ChunkKind.SUMMARY]
    return ProposalDocument(
        document_id=document_id,
        language=outline.language,
        characters=outline.characters,
        headings=tuple(
            ProposalHeading(start=block.start, level=block.heading_level, title=block.title)
            for block in outline.headings
        ),
        passages=tuple(
            ProposalPassage(
                start=chunk.start,
                text=chunk.text,
                kind=chunk.kind,
                heading_path=chunk.heading_path,
                sentence_starts=tuple(sentence_ends(chunk.text, 0, len(chunk.text))),
            )
            for chunk in leaves
        ),
        abbreviations=tuple(find_definitions("\n\n".join(chunk.text for chunk in leaves))),
    )


async def ask_for_questions(
    documents: Sequence[ProposalDocument],
    llm: Llm,
    ledger: TokenBudget,
    *,
    limits: SampleLimits,
    left_out: Counter[str],
    progress: Callable[[int, int], None],
) -> list[Proposal]:
    """Return questions that a language model wrote for sampled passages; count those refused in `left_out`.

    progress: gets the number of passages done and of all. Raises the errors of the ledger.
    """
    asked = choose_passages(documents, limits)
    found: list[Proposal] = []
    for start in range(0, len(asked), _AT_ONCE):
        batch = asked[start : start + _AT_ONCE]
        prompts = [
            gold_prompt(passage.text, headings=passage.heading_path, language=document.language)
            for document, passage in batch
        ]
        reserved = sum(most_tokens(each, GOLD_TOKENS) for each in prompts)
        if (day := await ledger.take(reserved)) is None:
            left_out[UNPAID] += len(asked) - start
            break
        answers = await llm.complete(prompts, max_tokens=GOLD_TOKENS)
        used = sum(
            each.prompt_tokens + each.completion_tokens for each in answers if not isinstance(each, NoCompletion)
        )
        await ledger.give_back(reserved - used, day=day)
        for (document, passage), answer in zip(batch, answers, strict=True):
            if isinstance(answer, NoCompletion):
                left_out[f"{UNANSWERED}: {answer.gist}"] += 1
                continue
            read = read_gold_answer(answer.text, passage.text)
            if isinstance(read, Refusal):
                left_out[read.value] += 1
            elif not may_be_in(read.question, document.language):
                left_out[LANGUAGE] += 1
            else:
                found.append(_proposal(document, passage, read))
        progress(start + len(batch), len(asked))
    return found


def _proposal(document: ProposalDocument, passage: ProposalPassage, read: GoldAnswer) -> Proposal:
    return Proposal(
        question=read.question,
        document_id=document.document_id,
        origin=Origin.PASSAGE,
        sections=section_of(document, passage),
        spans=(read.quote,),
    )
