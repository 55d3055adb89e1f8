"""Sets are read as they are, or refused with file and line."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import zstandard

from freki.infra.evaluation_sets import read_set
from freki.schemas.errors import Rejected

REAL = Path(__file__).parents[3] / "shared" / "data" / "ir" / "xquad-de"

CORPUS = [
    {"_id": "a", "title": " Urlaub  und\nReise ", "text": "Der Urlaub ist zu beantragen."},
    {"_id": "b", "text": "Ohne Titel."},
]
QUERIES = [{"_id": "q1", "text": "Wer entscheidet?"}, {"_id": "q2", "text": "Was kostet es?"}]
QRELS = "query-id\tcorpus-id\tscore\nq1\ta\t2\nq1\tb\t0\n"


def lines(entries: Sequence[Mapping[str, object]]) -> str:
    return "".join(json.dumps(entry) + "\n" for entry in entries)


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    home = tmp_path / "tiny"
    home.mkdir()
    (home / "corpus.jsonl").write_text(lines(CORPUS), encoding="utf-8")
    (home / "queries.jsonl").write_text(lines(QUERIES), encoding="utf-8")
    (home / "qrels.tsv").write_text(QRELS, encoding="utf-8")
    return home


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    home = tmp_path / "handbuch"
    home.mkdir()
    (home / "urlaub.md").write_text("# Urlaub\n", encoding="utf-8")
    return tmp_path / "fragen.yaml"


def test_the_last_state_of_a_recorded_stream_is_a_corpus(gold: Path, tmp_path: Path) -> None:
    stream = tmp_path / "laws.jsonl"
    changes = [
        {"op": "upsert", "document_id": "bgb", "version": 1, "content": "# BGB"},
        {"op": "upsert", "document_id": "hgb", "version": 1, "content": "# HGB"},
        {"op": "upsert", "document_id": "bgb", "version": 2, "content": "# BGB, neu"},
        {"op": "delete", "document_id": "hgb", "version": 2},
    ]
    stream.write_text(lines(changes), encoding="utf-8")
    gold.write_text("- question: Was gilt?\n  expected_sections: {bgb: [§ 1, § 2]}\n", encoding="utf-8")

    found = read_set(gold, corpus=stream)

    assert [(each.document_id, each.content) for each in found.corpus or ()] == [("bgb", "# BGB, neu")]
    (question,) = found.questions
    assert question.judgements == {"bgb": 1}
    assert question.sections == {"bgb": ("§ 1", "§ 2")}
    assert question.is_answerable


def test_a_directory_is_read_with_its_judgements(beir: Path) -> None:
    found = read_set(beir)

    assert found.name == "tiny"
    assert [(each.question_id, each.text, each.judgements) for each in found.questions] == [
        ("q1", "Wer entscheidet?", {"a": 2, "b": 0})
    ]
    assert found.notes == ()


def test_an_entry_becomes_the_page_that_its_author_would_publish(beir: Path) -> None:
    titled, untitled = read_set(beir).corpus or ()

    assert (titled.name, titled.media_type) == ("Urlaub und Reise", "text/markdown")
    assert titled.content == "# Urlaub und Reise\n\nDer Urlaub ist zu beantragen."
    assert (untitled.name, untitled.media_type, untitled.content) == (None, "text/plain", "Ohne Titel.")


def test_compressed_files_of_several_frames_hold_the_same(beir: Path) -> None:
    plain = read_set(beir)
    first, second = (beir / "corpus.jsonl").read_bytes().splitlines(keepends=True)
    (beir / "corpus.jsonl.zst").write_bytes(zstandard.compress(first) + zstandard.compress(second))
    (beir / "corpus.jsonl").unlink()

    assert read_set(beir) == plain


def test_files_may_begin_with_a_byte_order_mark(beir: Path) -> None:
    plain = read_set(beir)
    for path in beir.iterdir():
        path.write_text("\ufeff" + path.read_text(encoding="utf-8"), encoding="utf-8")

    assert read_set(beir) == plain


def test_judgements_may_lie_where_beir_has_them(beir: Path) -> None:
    plain = read_set(beir)
    (beir / "qrels").mkdir()
    (beir / "qrels.tsv").rename(beir / "qrels" / "test.tsv")

    assert read_set(beir) == plain


def test_what_cannot_be_measured_is_counted(beir: Path) -> None:
    (beir / "qrels.tsv").write_text(QRELS + "q1\tgone\t1\nq2\ta\t0\nq3\ta\t1\n", encoding="utf-8")

    notes = read_set(beir).notes

    assert [note.split()[:3] for note in notes] == [
        ["1", "judged", "questions"],
        ["1", "questions", "have"],
        ["1", "judged", "documents"],
    ]


@pytest.mark.parametrize(
    ("file", "content", "expected"),
    [
        ("corpus.jsonl", lines(CORPUS) + "{oops\n", "corpus.jsonl, line 3: "),
        (
            "corpus.jsonl",
            lines([*CORPUS, {"_id": "a", "text": "again"}]),
            "corpus.jsonl, line 3: _id 'a' is there twice",
        ),
        ("corpus.jsonl", '{"_id": "a"}\n', "corpus.jsonl, line 1: text: Field required"),
        ("corpus.jsonl", "\n", "corpus.jsonl: it is empty"),
        ("queries.jsonl", lines(QUERIES) + '{"_id": "q3", "text": ""}', "queries.jsonl, line 3: text: "),
        ("qrels.tsv", "q1\ta\t1\n", "qrels.tsv, line 1: the header must be query-id, corpus-id, score"),
        ("qrels.tsv", QRELS + "q1\ta\tgood\n", "qrels.tsv, line 4: expected a question, a document and a whole number"),
        ("qrels.tsv", QRELS + "q1 a 1\n", "qrels.tsv, line 4: "),
        ("qrels.tsv", "query-id\tcorpus-id\tscore\nq1\ta\t0\n", "for no question of "),
    ],
)
def test_a_broken_directory_is_refused_with_file_and_line(beir: Path, file: str, content: str, expected: str) -> None:
    (beir / file).write_text(content, encoding="utf-8")

    with pytest.raises(Rejected) as refusal:
        read_set(beir)

    assert expected in str(refusal.value)


@pytest.mark.parametrize("file", ["corpus.jsonl", "queries.jsonl", "qrels.tsv"])
def test_a_missing_file_is_named(beir: Path, file: str) -> None:
    (beir / file).unlink()

    with pytest.raises(Rejected, match=file):
        read_set(beir)


def test_a_cut_compressed_file_is_refused(beir: Path) -> None:
    whole = zstandard.compress((beir / "corpus.jsonl").read_bytes())
    (beir / "corpus.jsonl").unlink()
    (beir / "corpus.jsonl.zst").write_bytes(whole[:-4])

    with pytest.raises(Rejected, match="damaged"):
        read_set(beir)


def test_a_file_that_is_not_utf8_is_refused_with_the_line(beir: Path) -> None:
    (beir / "queries.jsonl").write_bytes(b'{"_id": "q1", "text": "a"}\n{"_id": "q2", "text": "\xe4"}\n')

    with pytest.raises(Rejected, match=r"queries\.jsonl, line 2: it is not UTF-8"):
        read_set(beir)


def test_gold_questions_are_read_with_their_documents(gold: Path) -> None:
    gold.write_text(
        "corpus: handbuch\n"
        "questions:\n"
        "  - question: Wer entscheidet?\n"
        "    id: leave\n"
        "    expected_documents: [handbuch/urlaub.md]\n"
        "    expected_spans: [beantragen]\n"
        "    expected_facts: [Leitung, 30]\n"
        "  - question: Wie hoch ist der Turm?\n"
        "    expected_documents: []\n",
        encoding="utf-8",
    )

    found = read_set(gold)

    answered, unanswerable = found.questions
    assert [each.document_id for each in found.corpus or ()] == ["handbuch/urlaub.md"]
    assert (answered.question_id, answered.judgements) == ("leave", {"handbuch/urlaub.md": 1})
    assert (answered.spans, answered.facts, answered.is_answerable) == (("beantragen",), ("Leitung", "30"), True)
    assert (unanswerable.question_id, unanswerable.judgements, unanswerable.is_answerable) == ("2", {}, False)


def test_a_bare_list_of_questions_is_for_what_is_indexed(gold: Path) -> None:
    gold.write_text("- question: Wer?\n  expected_documents: [anything.md]\n", encoding="utf-8")

    found = read_set(gold)

    assert found.corpus is None
    assert found.questions[0].judgements == {"anything.md": 1}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("- question: Wer?\n- question: Was?\n  expected_facts: [a]\n", "fragen.yaml, line 1: give expected_documents"),
        ("- question: Wer?\n  expected_facts: [a]\n- question: Was?\n  expected: [a]\n", "line 3: expected: "),
        ("- question: [\n", "fragen.yaml, line 2: "),
        (
            "corpus: handbuch\nquestions:\n- question: W?\n  expected_documents: [handbuch/urlaub]\n",
            "handbuch/urlaub.md",
        ),
        (
            "- {question: A, id: x, expected_facts: [a]}\n- {question: B, id: x, expected_facts: [a]}\n",
            "line 2: id 'x'",
        ),
        ("just text\n", "fragen.yaml: "),
        ("", "fragen.yaml: "),
        ("[]\n", "fragen.yaml: questions: "),
        ("corpus: nowhere\nquestions:\n- {question: A, expected_facts: [a]}\n", "nowhere"),
        ("!!python/object:os.system {}\n", "fragen.yaml, line 1: "),
        ("- expected_facts: [a]\n  question: 2024-13-45\n", "line 2: month must be in 1..12: write text that looks"),
        ("- question: !!int abc\n  expected_facts: [a]\n", "fragen.yaml, line 1: invalid literal"),
        (
            "questions:\n- {question: A, expected_facts: [a]}\nquestions:\n- {question: B, expected_facts: [a]}\n",
            "line 3: questions: is there twice",
        ),
        ("- {question: A, expected_facts: ['']}\n", "line 1: expected_facts: 0: "),
        ("- {question: A, expected_spans: [Leitung, ' ']}\n", "line 1: expected_spans: 1: "),
        ("- {question: A, expected_documents: ['']}\n", "line 1: expected_documents: 0: "),
        ("- {question: A, expected_sections: {a.md: []}}\n", "line 1: expected_sections: a.md: "),
        ("- {question: A, expected_sections: {a.md: ['']}}\n", "line 1: expected_sections: a.md: 0: "),
        ("- {question: ' ', expected_facts: [a]}\n", "line 1: question: "),
        (
            "- question: A\n  expected_facts: [a]\n- question: B\n  expected_facts: [a]\n  expected_facts: [b]\n",
            "line 5: expected_facts: is there twice",
        ),
        (
            "- question: A\n  expected_sections:\n    a.md: [§ 1]\n    a.md: [§ 2]\n",
            "line 4: a.md: is there twice",
        ),
        ("[" * 5000, "fragen.yaml: brackets or lists are nested too deeply"),
        ("- question: A\0\n", "fragen.yaml: "),
    ],
)
def test_broken_gold_questions_are_refused_with_the_line(gold: Path, content: str, expected: str) -> None:
    gold.write_text(content, encoding="utf-8")

    with pytest.raises(Rejected) as refusal:
        read_set(gold)

    assert expected in str(refusal.value)


def test_a_corpus_without_documents_is_refused(gold: Path, tmp_path: Path) -> None:
    gold.write_text("corpus: leer\nquestions:\n- {question: A, expected_facts: [a]}\n", encoding="utf-8")
    (tmp_path / "leer").mkdir()

    with pytest.raises(Rejected, match=r"fragen.yaml: no documents in .*leer"):
        read_set(gold)


def test_anything_else_is_no_set(tmp_path: Path) -> None:
    (tmp_path / "set.csv").touch()

    with pytest.raises(Rejected, match=r"a set is a directory with corpus.jsonl, .* or a .yaml file"):
        read_set(tmp_path / "set.csv")


@pytest.mark.skipif(not REAL.is_dir(), reason="the collection is not there")
def test_a_real_set_is_read() -> None:
    found = read_set(REAL)

    assert (len(found.corpus or ()), len(found.questions), found.notes) == (240, 1190, ())
