import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from freki.schemas.errors import Rejected
from freki.training.dataset import Dataset
from freki.training.pairs import read_material
from freki.training.sources import SOURCES

Line = Mapping[str, str]

texts = st.text("abcdefgh ", min_size=1, max_size=30).filter(str.strip)
lines = st.lists(
    st.fixed_dictionaries({"question": texts, "passage": texts, "title": st.text("abc ", max_size=5)}), min_size=1
)


def write(path: Path, lines: Iterable[Line]) -> None:
    content = "\n".join(json.dumps(line) for line in lines)
    path.write_bytes(zstandard.ZstdCompressor().compress(content.encode()))


def read(tmp_path: Path, name: str, lines: Iterable[Line], *, seed: int = 0) -> Dataset:
    write(tmp_path / f"{name}.jsonl.zst", lines)
    return read_material(tmp_path, seed=seed)


def numbered(count: int, **same: str) -> list[Line]:
    return [
        {"question": f"Frage nach {n}?", "passage": f"Text {n}", "title": f"Titel {n}", **same} for n in range(count)
    ]


@pytest.mark.parametrize("name", [*SOURCES, "own-de"])
@given(lines=lines, seed=st.integers(0, 9))
def test_each_question_points_to_a_document_and_each_document_is_there_once(
    tmp_path_factory: pytest.TempPathFactory, name: str, lines: list[Line], seed: int
) -> None:
    material = read(tmp_path_factory.mktemp("data"), name, lines, seed=seed)

    for collection in material.collections:
        assert len(set(collection.documents)) == len(collection.documents)
        assert all(0 <= question.answer < len(collection.documents) for question in collection.questions)


@given(lines=lines)
def test_a_file_that_we_do_not_know_is_taken_as_it_is(
    tmp_path_factory: pytest.TempPathFactory, lines: list[Line]
) -> None:
    (collection,) = read(tmp_path_factory.mktemp("data"), "own-de", lines).collections

    asked = [(question.text, collection.documents[question.answer]) for question in collection.questions]
    assert asked == [
        (" ".join(line["question"].split()), (" ".join(line["title"].split()), line["passage"].strip()))
        for line in lines
    ]


def test_the_same_seed_gives_the_same_material_and_another_one_other_material(tmp_path: Path) -> None:
    first = read(tmp_path, "mdn-headings-de", numbered(50, kind="intro"), seed=1)

    assert read_material(tmp_path, seed=1).files == first.files
    assert read_material(tmp_path, seed=1).collections[0].documents == first.collections[0].documents
    assert read_material(tmp_path, seed=2).collections[0].documents != first.collections[0].documents


def test_another_file_changes_nothing_of_the_first(tmp_path: Path) -> None:
    alone = read(tmp_path, "medquad-en", numbered(30))
    write(tmp_path / "other-en.jsonl.zst", [{"question": "q", "passage": "p"}])

    together = read_material(tmp_path, seed=0)

    (collection,) = together.collections
    assert collection.documents[: len(alone.collections[0].documents)] == alone.collections[0].documents
    assert together.files[0] == alone.files[0]


def test_languages_are_kept_apart(tmp_path: Path) -> None:
    write(tmp_path / "own-de.jsonl.zst", numbered(3))
    write(tmp_path / "own-en.jsonl.zst", numbered(4))

    material = read_material(tmp_path, seed=0)

    assert [(each.language, len(each.documents)) for each in material.collections] == [("de", 3), ("en", 4)]


def test_half_of_the_laws_bear_their_heading(tmp_path: Path) -> None:
    lines = [
        {"question": f"Kündigungsfrist {n} (Mietgesetz)", "passage": f"Text {n}", "title": "Mietgesetz § 1"}
        for n in range(8)
    ]

    (collection,) = read(tmp_path, "gesetze-headings-de", lines).collections

    titles = [document.title for document in collection.documents]
    assert sum(title == "Mietgesetz § 1" for title in titles) == 4
    assert sum(title.startswith("Mietgesetz § 1 Kündigungsfrist") for title in titles) == 4
    assert sum(question.text.endswith("(Mietgesetz)") for question in collection.questions) == 4


def test_a_sentence_with_two_questions_may_bear_one_and_be_asked_the_other(tmp_path: Path) -> None:
    lines = [{"question": f"{asked} {n}", "passage": f"Text {n}"} for n in range(6) for asked in ("erste", "zweite")]

    (collection,) = read(tmp_path, "squad-sent-en", lines).collections

    pairs = {(collection.documents[each.answer].title[:5], each.text[:6]) for each in collection.questions}
    assert pairs == {("erste", "zweite"), ("", "erste ")}


def test_files_are_named_with_their_hash_and_licence(tmp_path: Path) -> None:
    write(tmp_path / "own-de.jsonl.zst", numbered(2))
    write(tmp_path / "mlqa-de.jsonl.zst", numbered(2, title=""))

    known, own = read_material(tmp_path, seed=0).files

    assert (known.name, known.licence, known.questions) == ("mlqa-de.jsonl.zst", "CC-BY-SA-3.0", 2)
    assert (own.pairs, own.licence, len(own.sha256)) == (2, "not stated", 64)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"question": "q"}', "line 2: passage: "),
        ('{"question": " ", "passage": "p"}', "line 2: question: "),
        ("{", "line 2"),
    ],
)
def test_a_line_that_is_no_pair_is_refused_with_its_place(tmp_path: Path, line: str, message: str) -> None:
    content = f'{{"question": "q", "passage": "p"}}\n{line}'
    (tmp_path / "own-de.jsonl.zst").write_bytes(zstandard.ZstdCompressor().compress(content.encode()))

    with pytest.raises(Rejected, match=message):
        read_material(tmp_path, seed=0)


def test_a_folder_without_pairs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="NAME-LANGUAGE"):
        read_material(tmp_path, seed=0)
