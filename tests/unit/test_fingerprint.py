"""Which settings decide by what a revision is made, and which do not."""

import pytest

from freki.infra.settings.read import read_settings
from freki.operators.fingerprint import fingerprint
from freki.operators.recognise import Profile
from freki.streams.wire.rules import fingerprints_of

DECISIVE = {
    "FREKI_CHUNKING__MARKDOWN__MAX_CHARS": "400",
    "FREKI_CHUNKING__PDF__OVERLAP_CHARS": "10",
    "FREKI_CHUNKING__MAX_TOKENS": "200",
    "FREKI_CHUNKING__LEAST_SIMILARITY": "0.7",
    "FREKI_CONTEXTS__DEFINITIONS": "true",
    "FREKI_LEXICAL__ANALYSER": "plain",
    "FREKI_MODELS__LATE_WINDOW_TOKENS": "512",
}
INDIFFERENT = {
    "FREKI_CHUNKING__PART_CHUNKS": "32",
    "FREKI_RETRIEVAL__TOP_K": "7",
    "FREKI_INGEST__BATCH_EVENTS": "5",
    "FREKI_LLM__MODEL": "another",
}


def fingerprints(monkeypatch: pytest.MonkeyPatch, **settings: str) -> frozenset[str]:
    with monkeypatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        return fingerprints_of(read_settings())


@pytest.mark.parametrize(("name", "value"), DECISIVE.items(), ids=DECISIVE)
def test_what_changes_chunks_contexts_or_vectors_changes_fingerprints(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    assert fingerprints(monkeypatch, **{name: value}) != fingerprints(monkeypatch)


@pytest.mark.parametrize(("name", "value"), INDIFFERENT.items(), ids=INDIFFERENT)
def test_what_does_not_change_them_leaves_fingerprints_alone(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    assert fingerprints(monkeypatch, **{name: value}) == fingerprints(monkeypatch)


def test_a_setting_of_one_format_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprints(monkeypatch)

    after = fingerprints(monkeypatch, FREKI_CHUNKING__PDF__MAX_CHARS="600")

    assert len(before) == len(Profile)
    assert len(before & after) == len(Profile) - 1


def test_the_model_that_writes_contexts_counts_where_it_writes_any(monkeypatch: pytest.MonkeyPatch) -> None:
    writes = {"FREKI_CONTEXTS__LLM": "true", "FREKI_LLM__URL": "http://127.0.0.1:1/v1"}

    one = fingerprints(monkeypatch, **writes, FREKI_LLM__MODEL="one")

    assert not one & fingerprints(monkeypatch)
    assert not one & fingerprints(monkeypatch, **writes, FREKI_LLM__MODEL="another")


def test_each_part_counts_by_itself() -> None:
    ways = [("a", "b", "c"), ("ab", "", "c"), ("a", "bc", ""), ("a", "b", "d")]

    assert (
        len({fingerprint(outline, analyser=analyser, embedder=embedder) for outline, analyser, embedder in ways}) == 4
    )
