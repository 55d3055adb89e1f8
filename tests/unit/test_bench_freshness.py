"""Edits of documents, and what probes make of answers."""

from collections.abc import Sequence
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.pipeline.corpus import TENANT, document, seeded
from bench.pipeline.edits import edits, paragraph_changed, there_and_back
from bench.pipeline.freshness import Answer, Probe, marked, markers, summary

contents = st.lists(st.text(), min_size=2, max_size=6, unique=True)
LAW = "# Überschrift\n\nDer Mieter zahlt pünktlich Miete an den Vermieter.\n\nDer Vermieter überlässt ihm dafür Räume."


def probe(shows: Sequence[bool], *, claimed_at: int) -> Probe:
    """One answer every 10 ms, each to a question that was asked 10 ms before; the event was at 0."""
    answers = tuple(
        Answer(asked_at=10 * turn, arrived_ms=10.0 * (turn + 1), shows=shown) for turn, shown in enumerate(shows)
    )
    return Probe(answers=answers, claimed_at=claimed_at, claimed_ms=claimed_at)


def test_a_change_is_seen_when_the_first_answer_shows_it() -> None:
    found = probe([False, False, True, True], claimed_at=15)

    assert found.seen_ms == 30
    assert found.resolution_ms == 10


def test_a_change_that_the_first_answer_shows_happened_since_the_event() -> None:
    found = probe([True], claimed_at=5)

    assert (found.seen_ms, found.resolution_ms) == (10, 10)


def test_a_question_after_the_receipt_without_the_change_breaks_a_promise() -> None:
    # Asked at 0, 10, 20, 30; claimed for 15.
    assert probe([False, False, True, True], claimed_at=15).broken_promises == 0
    assert probe([False, False, False, True], claimed_at=15).broken_promises == 1


def test_a_question_in_the_same_millisecond_as_the_receipt_breaks_none() -> None:
    assert probe([False, False, True], claimed_at=10).broken_promises == 0


def test_an_answer_that_shows_the_old_state_again_has_reverted() -> None:
    assert probe([False, True, False, True], claimed_at=100).reverted == 1
    assert probe([False, False], claimed_at=100).reverted == 0


def test_what_was_never_seen_is_counted_and_not_averaged() -> None:
    found = summary([probe([False, True], claimed_at=5), probe([False, False], claimed_at=5)])

    assert (found["probes"], found["never_seen"], found["broken_promises"]) == (2, 1, 1)
    assert found["seen_ms"]["p99"] == 20
    assert found["seen_minus_claimed_ms"]["p50"] == 15


@given(contents=contents, steps=st.integers(0, 50))
def test_each_step_through_a_history_is_a_recorded_edit_or_one_undone(contents: list[str], steps: int) -> None:
    before, after = there_and_back(contents, steps), there_and_back(contents, steps + 1)

    assert abs(contents.index(before) - contents.index(after)) == 1


def test_edits_go_by_turns_with_growing_versions() -> None:
    originals = [document(TENANT, name, LAW) for name in "ab"]
    recorded = {"a": ["1", "2", "3"], "b": ["4", "5"]}

    found = list(islice(edits(originals, recorded, seeded(1), version=7), 6))

    assert [(each.document_id, each.version, each.content) for each in found] == [
        *(("a", 7, "2"), ("b", 7, "5")),
        *(("a", 8, "3"), ("b", 8, "4")),
        *(("a", 9, "2"), ("b", 9, "5")),
    ]


def test_without_a_history_one_paragraph_changes_at_a_time() -> None:
    changed = [paragraph_changed(LAW, seeded(number)) for number in range(20)]

    for text in changed:
        pairs = zip(LAW.split("\n\n"), text.split("\n\n"), strict=True)
        assert sum(old != new for old, new in pairs) <= 1
    assert len(set(changed)) > 5


def test_nothing_to_edit_is_an_error() -> None:
    with pytest.raises(ValueError, match="no document"):
        next(edits([], {}, seeded(1), version=2))


@given(seed=st.integers())
def test_markers_are_new_words_that_stand_once_in_a_marked_text(seed: int) -> None:
    words = list(islice(markers(seeded(seed)), 10))

    assert len(set(words)) == len(words)
    for word in words:
        assert marked(LAW, word).replace(f"{word} ", "") == LAW
    assert all(first not in second for first, second in pairwise(words))
