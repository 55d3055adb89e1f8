"""What `freki publish --wait` says of the language model."""

import pytest

from freki.cli.receipts import show_llm
from freki.schemas import LlmUse

WHOLE = LlmUse(written=5, kept=2, missing=0, reason="", prompt_tokens=900, cached_tokens=700, completion_tokens=60)
PARTIAL = LlmUse(
    written=1, kept=0, missing=3, reason="[a] is down", prompt_tokens=100, cached_tokens=0, completion_tokens=6
)


def printed(capsys: pytest.CaptureFixture[str], *uses: LlmUse) -> str:
    show_llm(uses)
    return " ".join(capsys.readouterr().out.split())


def test_without_a_model_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys) == ""


def test_contexts_and_tokens_are_added_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, WHOLE, WHOLE) == (
        "language model: 10 contexts written, 4 kept, 1,800 tokens read, 1,400 of them from its cache, 120 written"
    )


def test_what_is_missing_is_said_with_its_reason_word_for_word(capsys: pytest.CaptureFixture[str]) -> None:
    said = "3 contexts missing; publish with --force to have them: [a] is down"

    assert printed(capsys, WHOLE, PARTIAL).endswith(said)
