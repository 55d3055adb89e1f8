"""What a language model is asked to situate chunks, and how its answers are read: pure, so that any client will do."""

from freki.operators.ask_llm.answers import CONTEXT_CHARS, SUMMARY_CHARS, is_latin, read_contexts, read_summary
from freki.operators.ask_llm.prompts import VERSION, context_prompt, summary_prompt

__all__ = [
    "CONTEXT_CHARS",
    "SUMMARY_CHARS",
    "VERSION",
    "context_prompt",
    "is_latin",
    "read_contexts",
    "read_summary",
    "summary_prompt",
]
