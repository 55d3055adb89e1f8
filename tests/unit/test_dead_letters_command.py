"""`freki dead-letters`: alike ones together, with times and what to do next; a replay is marked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from freki.cli import dead_letters
from freki.cli.main import app
from freki.operators.group_letters import group_letters
from freki.schemas import Timestamp
from freki.schemas.operations import LetterView, ReplayResult
from freki.streams.deliver.dead_letters import DeadLetter, Letter
from freki.streams.wire.replaying import Letters

AT = 1_760_000_000_000


def letter(number: int, message: str = "", **changes: object) -> DeadLetter:
    given_ = {
        "key": f"default/akten/{number}.md".encode(),
        "value": b"\x00Obj Text \xff of the document",
        "headers": (("traceparent", b"00-1"),),
        "topic": "freki.documents.v1",
        "partition": 0,
        "offset": number,
        "timestamp": Timestamp(AT),
        "stage": "chunk",
        "error": "ValueError",
        "message": message or f"row {number} of 'a-{number}' is too long",
        "traceback": "",
        "attempts": 1,
        "died_at": Timestamp(AT + number),
    }
    return DeadLetter(**{**given_, **changes})  # type: ignore[arg-type]


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> dict[Letter, DeadLetter]:
    held = {(0, number): letter(number) for number in range(7)}
    held[0, 7] = letter(7, "another cause")

    async def read(_: object, **__: object) -> Letters:
        return Letters(by_place=held, replayed={(0, 0)})

    monkeypatch.setattr(dead_letters, "read_letters", read)
    return held


def run(*arguments: str) -> tuple[int, str]:
    ended = CliRunner().invoke(app, ["dead-letters", *arguments], env={"COLUMNS": "80"})
    return ended.exit_code, ended.output


@pytest.mark.usefixtures("letters")
def test_alike_ones_are_listed_together_with_their_times_and_what_to_do_next() -> None:
    code, text = run("list")

    assert code == 0
    assert "6 letters of chunk, 2025-" in text
    assert "1 letter of chunk, 2025-" in text
    assert "and 1 more: --all lists them" in text
    assert "0/0 " not in text
    assert "dead-letters show 0/7" in text
    assert "default/akten/5.md" in text
    assert "sent again" in run("list", "--all")[1]


@pytest.mark.parametrize("written", [-1, 1_760_000_000_000_000_000, 2**63 - 1])
def test_a_record_without_a_time_is_shown(letters: dict[Letter, DeadLetter], written: int) -> None:
    letters[0, 7] = letter(7, timestamp=Timestamp(written), died_at=Timestamp(written))

    assert "written –" in run("show", "0/7")[1]
    assert [run("show", "0/7")[0], run("list")[0]] == [0, 0]


@pytest.mark.usefixtures("letters")
def test_one_is_readable_whatever_its_value_holds() -> None:
    code, text = run("show", "0/3")

    assert code == 0
    assert "row 3" in text
    assert "after 1 attempt" in text
    assert "Obj Text" in text
    assert "\\x" not in text
    assert "dead-letters replay 0/3" in text


def test_the_audit_log_says_which_letter_was_shown_and_takes_no_id_of_a_query_for_a_tenant(
    letters: dict[Letter, DeadLetter], monkeypatch: pytest.MonkeyPatch
) -> None:
    letters[0, 7] = letter(7, key=b"query-7")
    recorded = []

    async def record(_: object, __: object, words: str, *, tenant: str, documents: list[tuple[str, int]]) -> None:
        recorded.append((words, tenant, documents))

    monkeypatch.setattr(dead_letters, "record_command", record)

    assert (run("show", "0/3")[0], run("show", "0/7")[0]) == (0, 0)
    assert recorded == [
        ("freki dead-letters show 0/3", "default", [("akten/3.md", 0)]),
        ("freki dead-letters show 0/7", "", []),
    ]


@pytest.mark.usefixtures("letters")
def test_a_replay_says_what_it_sent_and_fails_if_it_left_something_out_that_no_later_record_settles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def replay(_: object, __: Letters, chosen: dict[Letter, DeadLetter], **___: object) -> list[ReplayResult]:
        names = ["{}/{}".format(*place) for place in chosen]
        left = {"0/6": ReplayResult(letter="0/6", sent=False, reason="a later change is there", superseded=True)}
        left["0/5"] = ReplayResult(letter="0/5", sent=False, reason="its record was sent already", sent_before=True)
        left["0/7"] = ReplayResult(letter="0/7", sent=False, reason="its value is gone")
        return [left.get(name, ReplayResult(letter=name, sent=True)) for name in names]

    monkeypatch.setattr(dead_letters, "replay_letters", replay)

    code, text = run("replay", "all")
    assert code == 1
    assert "sent 4 records again, 1 superseded, 1 sent before, 1 left out" in text
    assert "0/6: superseded: a later change is there" in text
    assert "0/7: not sent: its value is gone" in text
    assert run("replay", "0/6")[0] == 0
    assert run("replay", "0/5")[0] == 0
    assert run("replay", "0/3")[0] == 0
    assert run("replay", "0/9")[0] == 1


@given(st.lists(st.tuples(st.integers(0, 999), st.sampled_from(["chunk", "embed"])), max_size=20))
def test_groups_have_each_letter_once_and_differ_in_more_than_numbers(found: list[tuple[int, str]]) -> None:
    views = [view(place, number, stage) for place, (number, stage) in enumerate(found)]
    groups = group_letters(views)
    assert sorted(each.letter for group in groups for each in group.letters) == sorted(each.letter for each in views)
    assert len(groups) == len({stage for _, stage in found})
    assert [group.last_at for group in groups] == sorted((group.last_at for group in groups), reverse=True)


def view(place: int, number: int, stage: str) -> LetterView:
    return LetterView(
        letter=f"0/{place}",
        record="t/0/1",
        key="k",
        stage=stage,
        error="E",
        message=f"row {number} of 'x{number}'",
        attempts=1,
        replays=0,
        died_at=Timestamp(number),
        sent_again=False,
    )
