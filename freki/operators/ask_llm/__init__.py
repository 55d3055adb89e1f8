"""Prompts for a language model about chunks and queries, and parsing of its answers; independent of the client."""

from freki.operators.ask_llm.answers import SUMMARY_CHARS, is_latin, read_contexts, read_summary
from freki.operators.ask_llm.compose_answer import NO_ANSWER, answer_prompt
from freki.operators.ask_llm.gold import GOLD_TOKENS, GoldAnswer, Refusal, gold_prompt, read_gold_answer
from freki.operators.ask_llm.grades import TOKENS_A_GRADE, grades_prompt, read_grades
from freki.operators.ask_llm.prompts import VERSION, context_prompt, instructions, summary_prompt
from freki.operators.ask_llm.questions import MAX_TOKENS, WRITTEN, question_prompt, read_questions
from freki.operators.ask_llm.read_answer import AnswerReader, Piece, Restart, Sentence, Stop
from freki.operators.ask_llm.runs import copied_share, longest_run

__all__ = [
    "GOLD_TOKENS",
    "MAX_TOKENS",
    "NO_ANSWER",
    "SUMMARY_CHARS",
    "TOKENS_A_GRADE",
    "VERSION",
    "WRITTEN",
    "AnswerReader",
    "GoldAnswer",
    "Piece",
    "Refusal",
    "Restart",
    "Sentence",
    "Stop",
    "answer_prompt",
    "context_prompt",
    "copied_share",
    "gold_prompt",
    "grades_prompt",
    "instructions",
    "is_latin",
    "longest_run",
    "question_prompt",
    "read_contexts",
    "read_gold_answer",
    "read_grades",
    "read_questions",
    "read_summary",
    "summary_prompt",
]
