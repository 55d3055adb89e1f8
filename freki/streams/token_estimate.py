"""Estimate of the tokens of a call of a language model, which its budget is asked for before."""

from typing import Final

from freki.schemas import Prompt

_CHARS_PER_TOKEN: Final = 3
"""Lower bound: German has 3 to 4 in current tokenizers."""


def most_tokens(prompt: Prompt, completion: int) -> int:
    """Return the estimated maximum tokens of a call; completion: the limit of its completion."""
    return (len(prompt.system) + len(prompt.user)) // _CHARS_PER_TOKEN + completion
