"""A file of gold questions is edited in place: comments, order and writing stay."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.infra.evaluation_sets import read_set
from freki.infra.evaluation_sets.gold_file import GoldFile
from freki.schemas.errors import Rejected
from freki.schemas.evaluation import ReviewState

WRITTEN = """\
# Fragen zum Handbuch
corpus: [handbuch, faq.md]   # beide
questions:
  - question: Wer entscheidet?   # unklar
    expected_documents: [handbuch/urlaub.md]
    review: open

  # aus dem Gespräch
  - {question: "Was: gilt?", expected_documents: [], review: open}
  - review: open
    question: >-
      Wie lange
      dauert es?
    expected_facts: [30 Tage]
"""
ENTRY: dict[str, Any] = {"question": "Neu?", "id": "0123456789", "expected_documents": ["a.md"], "review": "open"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "fragen.yaml"
    file.write_text(WRITTEN, encoding="utf-8")
    return file


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["no mark", "byte order mark"])
def test_a_file_of_an_editor_on_windows_is_read_and_saved(path: Path, mark: str) -> None:
    path.write_text(f"{mark}{WRITTEN}", encoding="utf-8", newline="\r\n")
    file = GoldFile.read(path)

    file.decide(0, ReviewState.KEPT)
    file.save()

    assert [question.review for question in GoldFile.read(path).questions] == [
        ReviewState.KEPT,
        ReviewState.OPEN,
        ReviewState.OPEN,
    ]


def test_a_decision_changes_only_its_own_value(path: Path) -> None:
    file = GoldFile.read(path)

    file.decide(1, ReviewState.DROPPED)
    file.decide(0, ReviewState.KEPT)
    file.save()

    lines = WRITTEN.splitlines()
    changed = path.read_text(encoding="utf-8").splitlines()
    assert [(old, new) for old, new in zip(lines, changed, strict=True) if old != new] == [
        ("    review: open", "    review: kept"),
        (lines[8], lines[8].replace("open", "dropped")),
    ]


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("wording", ["Wer zahlt?", 'Was heißt „a: b“, "c" # d?', "- ja?", "5", "Ä" * 300 + " lang?"])
def test_a_new_wording_is_read_back_and_nothing_else_changes(path: Path, place: int, wording: str) -> None:
    file = GoldFile.read(path)
    before = list(file.questions)

    file.decide(place, ReviewState.KEPT, wording=wording)
    file.save()

    after = GoldFile.read(path).questions
    assert after[place].question == wording
    assert after == file.questions
    assert [each for at, each in enumerate(after) if at != place] == [
        each for at, each in enumerate(before) if at != place
    ]
    assert "# aus dem Gespräch" in path.read_text(encoding="utf-8")


@given(st.lists(st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1).filter(str.strip), min_size=1))
def test_questions_are_read_back_as_they_were_made(texts: list[str]) -> None:
    made = [{**ENTRY, "question": text, "id": str(number)} for number, text in enumerate(texts)]

    file = GoldFile.create(Path("new.yaml"), [Path("handbuch")], made)

    assert [each.question for each in file.questions] == texts


def test_added_questions_stand_at_the_end_in_the_same_indentation(path: Path) -> None:
    path.write_text("questions:\n  - question: Alt?\n    expected_documents: [a.md]\ncorpus: .\n", encoding="utf-8")
    file = GoldFile.read(path)

    file.append([ENTRY])
    file.save()

    assert [each.question for each in GoldFile.read(path).questions] == ["Alt?", "Neu?"]
    text = path.read_text(encoding="utf-8")
    assert "\n  - question: Neu?\n" in text
    assert text.endswith("corpus: .\n")


def test_a_file_that_another_program_changed_is_not_overwritten(path: Path) -> None:
    file = GoldFile.read(path)
    file.decide(0, ReviewState.KEPT)
    path.write_text(f"{WRITTEN}# mehr\n", encoding="utf-8")

    with pytest.raises(Rejected, match="changed meanwhile"):
        file.save()

    assert path.read_text(encoding="utf-8").endswith("# mehr\n")
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_link_stays_a_link_and_rights_stay(path: Path, tmp_path: Path) -> None:
    path.chmod(0o640)
    link = tmp_path / "link.yaml"
    link.symlink_to(path)
    file = GoldFile.read(link)

    file.decide(0, ReviewState.KEPT)
    file.save()

    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert GoldFile.read(path).questions[0].review is ReviewState.KEPT


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- [question: a]\n", "line 1"),
        ("[{question: a, expected_documents: []}]\n", "lines of its own"),
        ("nothing: here\n", "questions"),
        ("- question: a\n  expected_documents: []\n  review: perhaps\n", "line 1: review"),
        ("- question: a\n  expected_documents: []\n  part: half\n", "line 1: part"),
        (
            "- question: a\n  expected_documents: &d [x]\n- question: b\n  expected_documents: *d\n  review: open\n",
            r"line 3: write out what \*alias or << stands for",
        ),
        (
            "- &a {question: a, expected_documents: [], review: open}\n- <<: *a\n  question: b\n",
            "line 2: write out what",
        ),
    ],
)
def test_what_is_no_such_set_is_refused_with_its_line(path: Path, text: str, expected: str) -> None:
    path.write_text(text, encoding="utf-8")

    with pytest.raises(Rejected, match=expected):
        GoldFile.read(path)


def test_a_corpus_may_be_several_folders_and_a_dropped_question_may_be_about_a_document_that_is_gone(
    tmp_path: Path,
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text("# A\n", encoding="utf-8")
    made = [
        {**ENTRY, "expected_documents": ["two/a.md"], "part": "test"},
        {**ENTRY, "id": "x", "expected_documents": ["gone.md"], "review": "dropped"},
    ]
    file = GoldFile.create(tmp_path / "sets" / "both.yaml", [Path("../one"), Path("../two")], made)
    file.save()

    found = read_set(file.path)

    assert [each.document_id for each in found.corpus or ()] == ["one/a.md", "two/a.md"]
    assert [(each.part, each.review) for each in found.questions] == [("test", "open"), (None, "dropped")]
