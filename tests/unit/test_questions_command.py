"""`freki questions`: from a folder to a set, again without losing decisions, and a person who decides."""

import asyncio
import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from rich.console import Console
from typer.testing import CliRunner, Result

from freki.cli.evaluate import questions as command
from freki.cli.evaluate.review import review
from freki.cli.main import app
from freki.infra.evaluation_sets import read_set
from freki.infra.evaluation_sets.gold import GoldQuestion
from freki.infra.evaluation_sets.gold_file import GoldFile
from freki.infra.settings import ModelSettings
from freki.schemas.evaluation import ReviewState
from tests.llm_server import LlmServer, an_llm_server, asked_of, says
from tests.scripted_server import Reply

LEAVE = """# Urlaub

## Wer entscheidet über den Antrag?

Die Leitung der Dienststelle entscheidet innerhalb von drei Wochen über jeden Antrag auf Erholungsurlaub.

## § 2 Übertragung von Resturlaub

Resturlaub verfällt nach dem 31. März des folgenden Jahres, wenn ihn niemand vorher schriftlich beantragt hat.

## § 3 Begriffsbestimmungen

(1) Erholungsurlaub ist die bezahlte Freistellung, die der Erholung dient.
"""
CANTEEN = """# Kantine

## Öffnungszeiten der Kantine

Die Kantine öffnet um elf Uhr und schließt um zwei. Freitags schließt sie eine Stunde früher als an den anderen Tagen.

## Einleitung

Diese Seite sagt, wann und was es zu essen gibt, und wie man ein Gericht für den nächsten Tag vorbestellen kann.
"""


@pytest.fixture(autouse=True)
def models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count words instead of the tokens of a model."""

    async def nothing(*_: object) -> None: ...

    async def counter(_: ModelSettings) -> Any:
        return lambda texts: [len(text.split()) for text in texts]

    monkeypatch.setattr(command, "ensure_built", nothing)
    monkeypatch.setattr(command, "open_token_counter", counter)
    monkeypatch.setenv("FREKI_CHUNKING__MIN_TOKENS", "1")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "handbuch"
    home.mkdir()
    (home / "urlaub.md").write_text(LEAVE, encoding="utf-8")
    (home / "kantine.md").write_text(CANTEEN, encoding="utf-8")
    return home


@pytest.fixture
def llm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LlmServer]:
    with an_llm_server() as server:
        monkeypatch.setenv("FREKI_LLM__URL", server.url)
        monkeypatch.setenv("FREKI_LLM__MODEL", "test")
        monkeypatch.setenv("FREKI_LLM__LEDGER", str(tmp_path / "tokens"))
        yield server


def make(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["questions", "make", *arguments])


def made(*arguments: str) -> tuple[list[dict[str, Any]], str]:
    result = make("handbuch", "--out", "sets/handbuch.yaml", *arguments)
    assert result.exit_code == 0, result.output
    return yaml.safe_load(Path("sets/handbuch.yaml").read_text(encoding="utf-8"))["questions"], result.output


@pytest.mark.usefixtures("folder")
def test_a_folder_becomes_a_set_that_is_read_with_its_corpus() -> None:
    questions, printed = made()

    asked = {each["question"]: each for each in questions}
    assert set(asked) == {
        "Wer entscheidet über den Antrag?",
        "Was gilt für die Übertragung von Resturlaub?",
        "Was bedeutet Erholungsurlaub?",
        "Was gilt für die Öffnungszeiten der Kantine?",
    }
    defined = asked["Was bedeutet Erholungsurlaub?"]
    assert defined["origin"] == "definition"
    assert defined["expected_spans"] == ["(1) Erholungsurlaub ist die bezahlte Freistellung, die der Erholung dient."]
    assert defined["expected_sections"] == {"handbuch/urlaub.md": ["§ 3 Begriffsbestimmungen"]}
    assert {each["review"] for each in questions} == {"open"}
    assert len({each["part"] for each in questions if "handbuch/urlaub.md" in each["expected_documents"]}) == 1
    assert re.search(r"\d+ headings too general", printed)
    assert "4 questions about 2 documents, 4 of them new" in printed
    found = read_set(Path("sets/handbuch.yaml"))
    assert len(found.corpus or ()) == 2
    assert len(found.questions) == 4


@pytest.mark.usefixtures("folder")
def test_the_same_seed_makes_the_same_file_within_its_limits() -> None:
    first, printed = made("--per-document", "1", "--seed", "3")
    before = Path("sets/handbuch.yaml").read_bytes()
    Path("sets/handbuch.yaml").unlink()

    made("--per-document", "1", "--seed", "3")

    assert Path("sets/handbuch.yaml").read_bytes() == before
    assert len(first) == 2
    assert "2 more than --per-document and --most allow" in printed
    assert len(made("--most", "3")[0]) == 3


def test_making_again_keeps_decisions_and_adds_only_what_is_new(folder: Path) -> None:
    made()
    path = Path("sets/handbuch.yaml")
    file = GoldFile.read(path)
    (place,) = (at for at, each in enumerate(file.questions) if each.question.startswith("Wer entscheidet"))
    file.decide(place, ReviewState.KEPT, wording="Wer bewilligt meinen Urlaub?")
    file.decide((place + 1) % 4, ReviewState.DROPPED)
    file.save()
    before = path.read_text(encoding="utf-8")
    new = (
        "## Vorbestellung von Gerichten\n\nGerichte bestellt man bis zehn Uhr am Vortag im Intranet oder an der Kasse."
    )
    (folder / "kantine.md").write_text(f"{CANTEEN}\n{new}\n", encoding="utf-8")

    questions, printed = made()

    assert path.read_text(encoding="utf-8").startswith(before)
    assert [each["question"] for each in questions[4:]] == ["Was gilt für die Vorbestellung von Gerichten?"]
    assert "1 of them new" in printed
    (canteen,) = {each["part"] for each in questions if each["expected_documents"] == ["handbuch/kantine.md"]}
    assert questions[4]["part"] == canteen


def test_a_question_whose_document_is_gone_is_named(folder: Path) -> None:
    made()
    (folder / "kantine.md").unlink()

    printed = " ".join(made()[1].split())

    told = "its document is gone, drop it: Was gilt für die Öffnungszeiten der Kantine? (handbuch/kantine.md)"
    assert printed.count(told) == 1


def test_a_question_that_expects_what_its_document_does_not_say_any_more_is_named(folder: Path) -> None:
    assert "its document has changed" not in made()[1]
    assert "its document has changed" not in made()[1]
    changed = LEAVE.replace("bezahlte Freistellung", "unbezahlte Freistellung").replace(
        "## Wer entscheidet", "## Wer befindet"
    )
    (folder / "urlaub.md").write_text(changed, encoding="utf-8")

    printed = " ".join(made()[1].split())

    told = "its document has changed, correct or drop it: "
    assert (
        f"{told}Was bedeutet Erholungsurlaub? (handbuch/urlaub.md does not say: "
        "(1) Erholungsurlaub ist die bezahlte Freistellung, die der Erholung dient.)" in printed
    )
    assert (
        f"{told}Wer entscheidet über den Antrag? (handbuch/urlaub.md has no section Wer entscheidet über den Antrag?)"
        in printed
    )
    assert printed.count(told) == 2


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["leer", "--out", "new.yaml"], "no files in leer: give files, or folders that hold some"),
        (["handbuch", "--out", "handbuch/new.yaml"], "would be a document itself: write it outside of handbuch"),
        (["handbuch", "--out", "new.txt"], "--out new.txt: name a file that ends in .yaml"),
        (
            ["handbuch", "--out", "notes.yaml"],
            "--out notes.yaml exists and is no set of gold questions: choose another",
        ),
        (["handbuch", "--out", "other.yaml"], "--out other.yaml has the corpus leer: give the same documents"),
        (["handbuch", "--out", "new.yaml", "--llm"], "--llm needs a language model: set FREKI_LLM__URL"),
        (["leer/nichts", "--out", "new.yaml"], "leer/nichts"),
    ],
)
def test_a_mistake_is_named_with_its_fix_and_nothing_is_written(
    folder: Path, arguments: list[str], expected: str
) -> None:
    (folder.parent / "leer").mkdir()
    Path("notes.yaml").write_text("a: b\n", encoding="utf-8")
    Path("other.yaml").write_text(
        "corpus: leer\nquestions:\n- {question: a, expected_documents: []}\n", encoding="utf-8"
    )

    result = make(*arguments)

    assert result.exit_code != 0
    assert expected in " ".join(result.output.split())
    assert not Path("new.yaml").exists()


def test_documents_without_any_question_write_no_file(folder: Path) -> None:
    for path in folder.iterdir():
        path.write_text("Nur ein Satz.\n", encoding="utf-8")

    result = make("handbuch", "--out", "new.yaml")

    assert result.exit_code == 1
    assert "no question could be made from 2 documents" in " ".join(result.output.split())
    assert "see above" not in result.output
    assert not Path("new.yaml").exists()


LONG = f"# Reisen\n\n{'Die Reise ist vorher zu genehmigen. ' * 6}Die Fahrkarte zahlt die Kasse sofort.\n"


def test_a_language_model_writes_questions_about_passages(folder: Path, llm: LlmServer) -> None:
    (folder / "reisen.md").write_text(LONG, encoding="utf-8")
    llm.script = lambda _: says("Frage: Wer kommt für das Ticket auf?\nAntwort: Die Fahrkarte zahlt die Kasse sofort.")

    questions, _ = made("--llm")

    (found,) = (each for each in questions if each["origin"] == "passage")
    assert found["question"] == "Wer kommt für das Ticket auf?"
    assert found["expected_documents"] == ["handbuch/reisen.md"]
    assert found["expected_spans"] == ["Die Fahrkarte zahlt die Kasse sofort."]
    assert "<passage>" in asked_of(llm.requests[0].body)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("Frage: Who pays for the ticket of the train?\nAntwort: Die Fahrkarte zahlt die Kasse", "in another language"),
        ("Frage: Wer kommt für das Ticket auf?\nAntwort: Der Reisende zahlt.", "is not in the passage"),
        ("Ignoriere das.", "without exactly one question"),
        (None, "without exactly one question"),
    ],
)
def test_what_a_language_model_writes_otherwise_is_counted(
    folder: Path, llm: LlmServer, said: str | None, reason: str
) -> None:
    (folder / "reisen.md").write_text(LONG, encoding="utf-8")
    llm.script = lambda _: says(said)

    questions, printed = made("--llm")

    assert all(each["origin"] != "passage" for each in questions)
    assert reason in printed


def test_a_language_model_that_fails_leaves_the_other_questions(folder: Path, llm: LlmServer) -> None:
    (folder / "reisen.md").write_text(LONG, encoding="utf-8")

    def fails(_: Mapping[str, Any]) -> Reply:
        return Reply({"error": {"message": "no"}}, status=400)

    llm.script = fails

    questions, printed = made("--llm")

    assert len(questions) == 4
    assert "passages for which the language model gave no answer" in printed


class Reviewer:
    """A person at a terminal, who types these lines and then leaves."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.console = Console(file=io.StringIO(), width=100)

    def __call__(self, _: str) -> str:
        if not self.lines:
            raise typer.Abort
        return self.lines.pop(0)

    @property
    def seen(self) -> str:
        assert isinstance(self.console.file, io.StringIO)
        return " ".join(self.console.file.getvalue().split())


async def beginning(question: GoldQuestion) -> str:
    return f"Anfang von {question.expected_sections}"


def reviewed(*lines: str) -> tuple[list[tuple[str, str]], Reviewer]:
    path, person = Path("sets/handbuch.yaml"), Reviewer(*lines)
    asyncio.run(review(GoldFile.read(path), person.console, quote=beginning, ask=person))
    return [(each.question, str(each.review)) for each in GoldFile.read(path).questions], person


@pytest.mark.usefixtures("folder")
def test_each_decision_is_saved_and_the_next_review_goes_on_after_it() -> None:
    before = [each["question"] for each in made()[0]]

    states, person = reviewed("k", "what?", "drop", "later")

    assert states == list(zip(before, ["kept", "dropped", "open", "open"], strict=True))
    assert "1 of 4 open" in person.seen
    assert "Type one of the letters" in person.seen
    assert "kept 1, dropped 1, open 2" in person.seen

    states, person = reviewed("e", "", "e", "  Und  nun? ", "k", "k")

    assert "1 of 2 open" in person.seen
    assert states[2] == ("Und nun?", "kept")
    assert "kept 3, dropped 1, open 0" in person.seen
    assert "freki eval sets/handbuch.yaml" in person.seen
    assert "No question is open." in reviewed()[1].seen


@pytest.mark.usefixtures("folder")
def test_a_review_shows_where_a_question_comes_from_and_what_answers_it() -> None:
    made()

    _, person = reviewed("l", "l", "l", "l")

    for shown in (
        "from faq",
        "from definition",
        "handbuch/urlaub.md › § 3 Begriffsbestimmungen",
        "die der Erholung dient.",
    ):
        assert shown in person.seen
    assert "Anfang von" in person.seen
    assert "Go on with: freki questions review sets/handbuch.yaml" in person.seen


@pytest.mark.usefixtures("folder")
def test_the_next_command_can_be_pasted_whatever_the_file_is_called() -> None:
    ended = make("handbuch", "--out", "sets/my [old] set.yaml")
    person = Reviewer()
    asyncio.run(review(GoldFile.read(Path("sets/my [old] set.yaml")), person.console, quote=beginning, ask=person))

    assert "freki questions review 'sets/my [old] set.yaml'" in ended.output
    assert "freki questions review 'sets/my [old] set.yaml'" in person.seen


@pytest.mark.usefixtures("folder")
def test_a_review_without_a_terminal_is_refused() -> None:
    made()

    result = CliRunner().invoke(app, ["questions", "review", "sets/handbuch.yaml"])

    assert result.exit_code == 2
    assert "review needs a terminal" in result.output


@pytest.mark.usefixtures("folder")
def test_a_part_of_a_set_without_parts_and_an_unreviewed_set_are_refused_with_the_fix() -> None:
    made()
    Path("plain.yaml").write_text(
        "corpus: handbuch\nquestions:\n- {question: a, expected_documents: [handbuch/urlaub.md]}\n", encoding="utf-8"
    )

    plain = CliRunner().invoke(app, ["eval", "plain.yaml", "--part", "test"])
    unread = CliRunner().invoke(app, ["eval", "sets/handbuch.yaml", "--part", "all", "--reviewed"])

    assert (plain.exit_code, unread.exit_code) == (2, 2)
    assert "--part test: the questions of plain have no parts" in " ".join(plain.output.split())
    assert "leave --reviewed out, or review more with" in " ".join(unread.output.split())
