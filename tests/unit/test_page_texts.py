"""The words of the pages: both languages have all of them, and each is used."""

import re
from pathlib import Path

from freki.infra import http_server
from freki.schemas.answer import AnswerEnding, Doubt

PAGE = Path(http_server.__path__[0]) / "page"


def keys(language: str) -> list[str]:
    texts = (PAGE / "texts.js").read_text(encoding="utf-8")
    block = re.search(rf"^  {language}: {{\n(.*?)^  }},", texts, re.DOTALL | re.MULTILINE)
    assert block is not None
    # Strings may hold colons.
    bare = re.sub(r'"[^"]*"|`[^`]*`', "", block[1])
    return re.findall(r"(\w+): ", bare)


def test_both_languages_have_the_same_words_each_once() -> None:
    assert keys("de") == keys("en")
    assert len(set(keys("en"))) == len(keys("en"))


def test_whatever_a_page_or_an_answer_says_has_words() -> None:
    used = set(map(str, [*AnswerEnding, *Doubt]))
    for file in [*PAGE.glob("*.js"), *PAGE.glob("*.html")]:
        used |= set(re.findall(r'(?:say\(|data-text=)"(\w+)"', file.read_text(encoding="utf-8")))
    assert used <= set(keys("en"))
