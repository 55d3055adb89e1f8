"""What a language model is asked, and how its answers are read: pure, so that any client will do."""

from freki.operators.ask_llm.answers import CONTEXT_CHARS, SUMMARY_CHARS, is_latin, read_contexts, read_summary
from freki.operators.ask_llm.grades import TOKENS_A_GRADE, grades_prompt, read_grades
from freki.operators.ask_llm.prompts import VERSION, context_prompt, summary_prompt

__all__ = [
    "CONTEXT_CHARS",
    "SUMMARY_CHARS",
    "TOKENS_A_GRADE",
    "VERSION",
    "context_prompt",
    "grades_prompt",
    "is_latin",
    "read_contexts",
    "read_grades",
    "read_summary",
    "summary_prompt",
]
