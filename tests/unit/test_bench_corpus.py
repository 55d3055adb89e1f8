from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.pipeline.corpus import TENANT, WORDS, Corpus, Words, document, questions_of, seeded, some, text_of, varied
from freki.schemas import Chunk, ChunkId, ChunkKind

STREAM = """\
{"op": "upsert", "document_id": "a", "version": 5, "content": "Alle Menschen sind frei und gleich geboren."}
{"op": "upsert", "document_id": "b", "version": 6, "content": "Niemand darf willkürlich festgenommen werden."}
{"op": "upsert", "document_id": "a", "version": 7, "content": "Alle Menschen sind frei, gleich und klug geboren."}
{"op": "delete", "document_id": "b", "version": 8}
{"op": "upsert", "document_id": "c", "version": 9, "content": "Jeder Mensch braucht Ruhe und freie Zeit."}
"""
TEXT = "Der Vermieter hat dem Mieter den Gebrauch der Mietsache während der Mietzeit zu gewähren, ohne Ausnahme."

texts = st.text(alphabet="abcdefäöü .,\n", min_size=1, max_size=300)


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    path = tmp_path / "changes.jsonl"
    path.write_text(STREAM, encoding="utf-8")
    return path


@pytest.mark.parametrize("streams", [True, False])
def test_the_same_seed_gives_the_same_documents(stream: Path, *, streams: bool) -> None:
    corpus = Corpus(streams=(stream,) if streams else (), seed=3)

    first, again = (list(islice(corpus.documents(), 30)) for _ in range(2))

    assert first == again


def test_another_seed_gives_other_copies_of_the_same_documents() -> None:
    originals = len(set(Path("freki/samples").iterdir()))

    one, other = (list(islice(Corpus(streams=(), seed=seed).documents(), 2 * originals)) for seed in (1, 2))

    assert one[:originals] == other[:originals]
    assert [change.document_id for change in one] == [change.document_id for change in other]
    assert all(mine.content != theirs.content for mine, theirs in zip(one[originals:], other[originals:], strict=True))


def test_no_document_comes_twice(stream: Path) -> None:
    changes = list(islice(Corpus(streams=(stream,), seed=1).documents(), 50))

    assert len({change.document_id for change in changes}) == 50


def test_first_versions_of_a_stream_come_first(stream: Path) -> None:
    changes = list(islice(Corpus(streams=(stream,), seed=1).documents(), 3))

    assert [change.document_id for change in changes] == ["changes/a", "changes/b", "changes/c"]
    assert "klug" not in text_of(changes[0])


def test_a_stream_without_content_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text('{"op": "delete", "document_id": "b", "version": 8}\n', encoding="utf-8")

    with pytest.raises(ValueError, match="no document"):
        next(Corpus(streams=(empty,), seed=1).documents())


def test_a_copy_keeps_the_shape_of_its_original() -> None:
    original = document(TENANT, "bgb.md", f"# § 535\n\n{TEXT}\n\n<b class='x'>{TEXT}</b>\n")

    copy = varied(original, copy=1, seed=1)

    assert text_of(copy) != text_of(original)
    assert [len(line.split()) for line in text_of(copy).splitlines()] == [
        len(line.split()) for line in text_of(original).splitlines()
    ]
    assert "# § 535\n" in text_of(copy)
    assert "<b class='x'>" in text_of(copy)


@given(text=texts, share=st.floats(0, 1), seed=st.integers())
def test_words_are_exchanged_for_words_of_the_same_text(text: str, share: float, seed: int) -> None:
    exchanged = Words(text).exchanged(text, seeded(seed), share=share)

    assert set(WORDS.findall(exchanged)) <= set(WORDS.findall(text))
    assert WORDS.sub("", exchanged) == WORDS.sub("", text)


@given(text=texts, seed=st.integers())
def test_a_share_of_nothing_changes_nothing(text: str, seed: int) -> None:
    assert Words(text).exchanged(text, seeded(seed), share=0) == text


@given(sizes=st.lists(st.integers(1, 50), min_size=1, max_size=20), characters=st.integers(1, 400))
def test_no_more_documents_are_taken_than_are_needed(sizes: list[int], characters: int) -> None:
    changes = [document(TENANT, str(number), "x" * size) for number, size in enumerate(sizes)]

    taken = list(some(changes, characters=characters))

    assert taken == changes[: len(taken)]
    assert sum(len(text_of(change)) for change in taken[:-1]) < characters
    assert len(taken) == len(changes) or sum(len(text_of(change)) for change in taken) >= characters


def test_questions_are_made_of_the_words_of_the_chunks() -> None:
    chunks = [a_chunk(TEXT, "Mietvertrag und Pachtvertrag"), a_chunk(TEXT.upper(), "")]

    questions = questions_of(chunks, 30, seed=1)

    assert len(questions) == 30
    assert questions == questions_of(chunks, 30, seed=1)
    known = {*TEXT.split(), *TEXT.upper().split(), "Mietvertrag", "und", "Pachtvertrag"}
    assert all(set(question.split()) <= known for question in questions)


def test_chunks_without_words_give_no_questions() -> None:
    with pytest.raises(ValueError, match="enough words"):
        questions_of([a_chunk("kurz", "")], 1, seed=1)


def a_chunk(text: str, heading: str) -> Chunk:
    return Chunk(
        chunk_id=ChunkId("0" * 32),
        level=2,
        kind=ChunkKind.PROSE,
        path="0",
        ordinal=0,
        heading_path=(heading,),
        start=0,
        end=len(text),
        text=text,
        overlap="",
        tokens=len(text.split()),
    )
