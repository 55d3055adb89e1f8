"""Erasure and its requests: whatever is held stays, whatever dies is done again, and no request is done twice."""

import asyncio
import hmac
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.trace import NoOpTracer

from freki.operators.errors import InvalidRequest
from freki.operators.validate_case import validate_case, validate_erasure_request
from freki.schemas import (
    Coverage,
    DocumentId,
    ErasureReport,
    ErasureRequest,
    ErasureStatus,
    TenantId,
    Timestamp,
)
from freki.schemas.errors import Unavailable
from freki.schemas.findings import CoveredDocuments, LastRecord, UndecodableChanges, UnreadRecords
from freki.schemas.identity import Identity, RefusalReason
from freki.streams.deliver.dead_letters import DeadLetter
from freki.streams.deliver.outbox import Outbox, Sink
from freki.streams.messages import TOKEN_HEADER, Received
from freki.streams.privacy.erasure import canonical
from freki.streams.privacy.requests import (
    ErasureRequests,
    RequestRules,
    reject_with_erasure_report,
    report_key,
)
from freki.streams.wire.erasing.holds import RecentHolds
from tests.erasing import CODEC, REPORTS, TENANT, Kept, World, hold
from tests.received import received_request
from tests.unit.deliveries import dead_letter

A, B, C = (DocumentId(name) for name in "abc")
ALL = Coverage(whole_tenant=True)
NAMES = st.sampled_from([A, B, C])
COVERAGES = st.one_of(
    st.just(ALL),
    st.lists(NAMES, min_size=1, unique=True).map(lambda names: Coverage(documents=tuple(names))),
    st.sampled_from(["x", "y"]).map(lambda value: Coverage(attributes={"team": value})),
)
STEPS = st.sampled_from(["record", "covered", "find", "delete", "remove", "roots", "destroy_keys", "strip", "holds"])


def world() -> World:
    return World({A: Kept(attributes={"team": "x"}), B: Kept(attributes={"team": "y"}), C: Kept(version=3)})


def erased(world: World) -> set[DocumentId]:
    return {name for name, each in world.documents.items() if not (each.indexed or each.content or each.key)}


def untouched(world: World) -> set[DocumentId]:
    return {name for name, each in world.documents.items() if each.indexed and each.content and each.key}


def requests_in(
    world: World,
    *,
    requesters: Sequence[str] = (),
    tokens: Mapping[bytes, Identity | RefusalReason] | None = None,
    key: bytes = b"key",
    max_report_bytes: int = 5_000_000,
) -> ErasureRequests:
    async def identify(token: bytes) -> Identity | RefusalReason:
        return (tokens or {}).get(token, RefusalReason.SIGNATURE)

    return ErasureRequests(
        world.erasure,
        rules=RequestRules(
            requesters=frozenset(requesters), reply_topics=("answers",), max_report_bytes=max_report_bytes
        ),
        reports=world,
        holds=world.book,
        sink=Sink(Outbox(world.producer, NoOpTracer()), REPORTS, CODEC.encode),
        hash_text=lambda text: hmac.digest(key, text.encode(), "sha256").hex(),
        now=lambda: Timestamp(9),
        identify=None if tokens is None else identify,
    )


def request(
    covers: Coverage = ALL, *, request_id: str = "r", tenant: TenantId = TENANT, reply_to: str | None = None
) -> ErasureRequest:
    return ErasureRequest(
        request_id=request_id, tenant=tenant, covers=covers, requested_at=Timestamp(1), reply_to=reply_to
    )


def letter_of(key: bytes) -> DeadLetter:
    return dead_letter(key=key, value=b"", topic="erasure-requests", stage="erase", error="InvalidRequest", message="m")


def asked(value: ErasureRequest, token: bytes | None = None) -> Received[ErasureRequest]:
    return received_request(value, () if token is None else ((TOKEN_HEADER, token),))


def moves_letters(world: World, *, times: int) -> None:
    """Have another process send dead letters again, so that they are no more where they were found."""
    moved = 0

    def meanwhile(step: str) -> None:
        nonlocal moved
        if step == "letters" and moved < times:
            moved += 1
            for each in world.documents.values():
                each.letter = None if each.letter is None else each.letter + 10

    world.meanwhile = meanwhile


async def test_a_dead_letter_that_another_erasure_sends_again_goes_too() -> None:
    here = World({A: Kept(letter=1), B: Kept(letter=2)})
    moves_letters(here, times=1)

    erasure = here.erasure()
    done = await erasure.run(await erasure.plan(TENANT, Coverage(documents=(A,))), about={})

    assert {name: each.letter for name, each in here.documents.items()} == {A: None, B: 12}
    assert (done.status, done.body["left"]["records"]) == (ErasureStatus.ERASED, [])


async def test_an_erasure_from_which_dead_letters_are_moved_away_all_the_time_is_incomplete_and_says_so() -> None:
    here = World({A: Kept(letter=1)})
    moves_letters(here, times=100)

    erasure = here.erasure()
    done = await erasure.run(await erasure.plan(TENANT, ALL), about={})

    assert here.documents[A].letter is not None
    assert done.status is ErasureStatus.INCOMPLETE
    assert [(each["topic"], each["records"]) for each in done.body["late"]] == [("dead-letters", 1)]


async def test_a_claim_of_a_version_that_its_writer_never_published_goes_with_the_document() -> None:
    here = World({A: Kept(version=3, unpublished=5), B: Kept()})
    erasure = here.erasure()

    done = await erasure.run(await erasure.plan(TENANT, ALL), about={})

    assert erased(here) == {A, B}
    assert here.documents[A].unpublished is None
    assert done.status is ErasureStatus.ERASED
    # A change that names it and comes yet is refused.
    assert done.body["documents"] == [{"id": A, "version": 5}, {"id": B, "version": 1}]


async def test_a_claim_of_a_version_that_is_not_published_yet_when_an_erasure_ends_is_named() -> None:
    here = World({A: Kept()})
    erasure = here.erasure()
    plan = await erasure.plan(TENANT, ALL)
    here.documents[A].unpublished = 2

    done = await erasure.run(plan, about={})

    assert (done.status, done.is_whole) == (ErasureStatus.INCOMPLETE, False)
    assert done.body["unpublished"] == [{"id": A, "version": 2, "claim": "unpublished:a"}]
    again = await erasure.run(await erasure.plan(TENANT, ALL), about={})
    assert (again.status, again.body["unpublished"]) == (ErasureStatus.ERASED, [])
    assert here.documents[A].unpublished is None


async def test_an_erasure_whose_changes_cannot_be_decoded_erases_by_key_and_is_incomplete() -> None:
    here = world()
    here.undecodable = (UndecodableChanges(topic="documents", partition=0, records=1, last=5, reason="no registry"),)

    erasure = here.erasure()
    done = await erasure.run(await erasure.plan(TENANT, Coverage(documents=(A,))), about={})

    assert erased(here) == {A}
    assert (done.status, done.is_whole) == (ErasureStatus.INCOMPLETE, False)
    assert [each["reason"] for each in done.body["undecodable"]] == ["no registry"]


async def test_an_erasure_whose_content_the_topic_keeps_for_good_is_incomplete() -> None:
    here = world()
    here.lasts = [LastRecord(topic="documents", partition=0, offset=0, key=b"hr/a", document_id=A, version=None)]

    erasure = here.erasure()
    done = await erasure.run(await erasure.plan(TENANT, Coverage(documents=(A,))), about={})

    assert erased(here) == {A}
    assert (done.status, done.is_whole) == (ErasureStatus.INCOMPLETE, False)


@pytest.mark.parametrize("attributes", [{"team": "x"}, {"team": "nobody"}])
async def test_where_nobody_can_tell_what_is_covered_an_erasure_is_incomplete_also_after_a_crash(
    attributes: Mapping[str, str],
) -> None:
    here = world()
    here.undecided = {DocumentId("d"): "no registry"}
    covers = Coverage(attributes=attributes)

    def dies(step: str) -> None:
        if step == "record":
            raise Unavailable("killed")

    here.meanwhile = dies
    with suppress(Unavailable):
        await requests_in(here).handle([asked(request(covers))])
    here.meanwhile = lambda _: None
    await requests_in(here).handle([asked(request(covers))])

    report = here.reports()[TENANT, "r"]
    assert erased(here) == {name for name, each in world().documents.items() if covers.has(name, each.attributes)}
    assert report.status is ErasureStatus.INCOMPLETE
    assert "whether 'd' is covered" in report.message
    assert "no registry" in report.message


@given(covers=COVERAGES, holds=st.lists(COVERAGES, max_size=2))
async def test_what_is_held_stays_whole_and_all_else_that_is_covered_goes(
    covers: Coverage, holds: list[Coverage]
) -> None:
    here = world()
    here.holds = [hold(f"h{number}", each) for number, each in enumerate(holds)]
    documents = here.state()
    meant = {name for name, each in documents.items() if covers.has(name, each.attributes)}
    held = {name for name, each in documents.items() if any(one.has(name, each.attributes) for one in holds)}

    erasure = here.erasure()
    done = await erasure.run(await erasure.plan(TENANT, covers), about={})

    assert erased(here) == meant - held
    assert untouched(here) == documents.keys() - (meant - held)
    assert done.held.keys() == meant & held
    assert set(here.recorded) == meant - held
    assert done.status is (ErasureStatus.HELD if meant & held else ErasureStatus.ERASED)


@given(covers=COVERAGES, held=COVERAGES)
async def test_a_hold_that_ended_leaves_no_trace_in_what_is_erased(covers: Coverage, held: Coverage) -> None:
    here, without = world(), world()
    here.holds = [hold("h", held)]

    for each in (here, without):
        handler = requests_in(each)
        await handler.handle([asked(request(covers))])
        each.holds.clear()
        await handler.resume()

    assert here.state() == without.state()
    ends = [each.reports()[TENANT, "r"] for each in (here, without)]
    assert [end.status for end in ends] == [ErasureStatus.ERASED] * 2
    named = [[json.loads(one.report)["documents"] for one in end.reports] for end in ends]
    first, second = ([document for some in each for document in some] for each in named)
    assert sorted(map(str, first)) == sorted(map(str, second)), "each document is in a signed report, once"


@given(held=COVERAGES, pauses=st.lists(st.sampled_from([0.0, 0.3, 0.6, 1.2]), min_size=6, max_size=6))
async def test_a_hold_that_ended_is_noticed_whenever_the_holds_were_read(held: Coverage, pauses: list[float]) -> None:
    here, now = world(), 100.0
    here.holds = [hold("h", held)]
    read = here.book
    here.book = RecentHolds(lambda: read.of(TENANT), clock=lambda: now)
    handler = requests_in(here)
    await handler.handle([asked(request())])
    now += pauses[0]
    here.holds.clear()
    for pause in pauses[1:]:
        now += pause
        await handler.resume()
    now += 1.2
    await handler.resume()

    assert erased(here) == here.documents.keys()


@given(placed=st.integers(1, 12), lifted=st.integers(1, 12), held=COVERAGES)
async def test_a_hold_that_comes_and_goes_while_a_request_goes_on_does_not_keep_its_documents_for_ever(
    placed: int, lifted: int, held: Coverage
) -> None:
    here, steps = world(), 0
    here.holds = [hold("first", ALL)]
    handler = requests_in(here)
    await handler.handle([asked(request())])
    here.holds.clear()

    def meanwhile(_: str) -> None:
        nonlocal steps
        steps += 1
        if steps == placed:
            here.holds.append(hold("second", held))
        if steps == placed + lifted:
            here.holds.clear()

    here.meanwhile = meanwhile
    await handler.resume()
    here.holds.clear()
    here.meanwhile = lambda _: None
    await handler.resume()

    assert erased(here) == here.documents.keys()
    report = here.reports()[TENANT, "r"]
    assert (report.status, report.held) == (ErasureStatus.ERASED, ())
    named = [each["id"] for one in report.reports for each in json.loads(one.report)["documents"]]
    assert sorted(named) == [A, B, C], "each is in a signed report, once"


async def test_what_was_deleted_before_a_hold_came_is_in_a_signed_report() -> None:
    here = world()
    here.holds = [hold("first", ALL)]
    handler = requests_in(here)
    await handler.handle([asked(request())])
    here.holds.clear()

    def meanwhile(step: str) -> None:
        if step == "remove" and not here.holds:
            here.holds.append(hold("second", ALL))

    here.meanwhile = meanwhile
    await handler.resume()

    report = here.reports()[TENANT, "r"]
    assert (report.status, report.held) == (ErasureStatus.HELD, (A, B, C))
    assert [json.loads(one.report)["deleted_before_hold"] for one in report.reports] == [[A, B, C]]


@pytest.mark.parametrize("step", ["remove", "destroy_keys", "strip"])
async def test_all_that_was_deleted_before_it_was_held_is_named_whenever_the_hold_came(step: str) -> None:
    here = world()

    def meanwhile(name: str) -> None:
        if name == step and not here.holds:
            here.holds.append(hold("h", Coverage(documents=(A,))))

    here.meanwhile = meanwhile
    erasure = here.erasure()
    done = await erasure.run(await erasure.plan(TENANT, ALL), about={})

    assert (done.status, done.held) == (ErasureStatus.HELD, {A: ("h",)})
    assert done.body["deleted_before_hold"] == [A]


@pytest.mark.parametrize("covers", [ALL, Coverage(documents=tuple(DocumentId(f"{n:0>200}") for n in range(60)))])
async def test_a_request_whose_report_its_topic_would_not_take_is_refused_before_anything_is_erased(
    covers: Coverage,
) -> None:
    names = [DocumentId(f"{n:0>200}") for n in range(60)]

    async def asked_with(room: int) -> World:
        here = World({name: Kept() for name in names})
        with suppress(InvalidRequest):
            await requests_in(here, max_report_bytes=room).handle([asked(request(covers))])
        return here

    whole = await asked_with(10**9)
    [report] = [sent for sent in whole.producer.to(REPORTS) if CODEC.decode(sent.value or b"").reports]
    largest = len(report.value or b"")

    assert erased(await asked_with(2 * largest)) == {*names}
    refused = await asked_with(largest - 1)
    assert untouched(refused) == {*names}
    assert not refused.producer.sent
    with pytest.raises(InvalidRequest, match=r"60 documents .* several requests"):
        await requests_in(refused, max_report_bytes=largest - 1).handle([asked(request(covers))])


async def test_what_a_rule_of_retention_could_not_erase_for_a_hold_is_left_to_the_rules() -> None:
    here = world()
    here.holds = [hold("h", ALL)]
    erasure = here.erasure()
    planned = (await erasure.plan(TENANT, ALL)).documents
    report = ErasureReport(
        request_id="retention:r:1",
        tenant=TENANT,
        status=ErasureStatus.HELD,
        message="",
        covers=Coverage(documents=(A, B, C)),
        requested_by="retention:r",
        reason="rule r",
        at=Timestamp(1),
        documents=tuple(planned),
        held=(A, B, C),
    )
    sink = Sink(Outbox(here.producer, NoOpTracer()), REPORTS, CODEC.encode)
    await sink.send(sink.record(report, key=report_key(TENANT, report.request_id)))
    # The rule may have been taken back meanwhile.
    here.holds.clear()
    await requests_in(here).resume()

    assert untouched(here) == {A, B, C}
    assert here.reports()[TENANT, report.request_id] == report


async def test_a_request_that_cannot_go_on_holds_up_no_other() -> None:
    here = world()
    here.holds = [hold("h", ALL)]
    handler = requests_in(here)
    names = [A, B, C]
    await handler.handle([asked(request(Coverage(documents=(name,)), request_id=name)) for name in names])
    here.holds.clear()
    failing = [Unavailable("down"), Unavailable("down")]

    def meanwhile(step: str) -> None:
        if step == "delete" and failing:
            raise failing.pop()

    here.meanwhile = meanwhile
    await handler.resume()
    after_one = erased(here)
    await handler.resume()

    assert after_one == {C}
    assert erased(here) == {A, B, C}


@given(step=STEPS, at=st.integers(1, 4), held=COVERAGES)
async def test_a_hold_placed_while_an_erasure_runs_keeps_what_is_not_erased_yet(
    step: str, at: int, held: Coverage
) -> None:
    here, seen = world(), 0
    kept: set[DocumentId] = set()
    attributes = {name: each.attributes for name, each in here.documents.items()}

    def meanwhile(name: str) -> None:
        nonlocal seen
        seen += name == step
        if name == step and seen == at and not here.holds:
            here.holds.append(hold("h", held))
            kept.update(
                each for each, one in here.documents.items() if one.content and held.has(each, attributes[each])
            )

    erasure = here.erasure()
    plan = await erasure.plan(TENANT, ALL)
    here.meanwhile = meanwhile
    done = await erasure.run(plan, about={})

    assert {name for name in kept if here.documents[name].content} == kept
    assert kept & {DocumentId(each["id"]) for each in done.body.get("documents", ())} == set()
    if kept:
        assert done.status is ErasureStatus.HELD


@given(step=STEPS, at=st.integers(1, 6), covers=COVERAGES, held=st.none() | COVERAGES)
async def test_a_request_whose_worker_died_anywhere_is_done_by_the_next_one(
    step: str, at: int, covers: Coverage, held: Coverage | None
) -> None:
    here, whole, seen = world(), world(), 0
    for each in (here, whole):
        each.holds = [] if held is None else [hold("h", held)]

    def dies(name: str) -> None:
        nonlocal seen
        seen += name == step
        if name == step and seen == at:
            raise Unavailable("killed")

    here.meanwhile = dies
    try:
        await requests_in(here).handle([asked(request(covers))])
    except Unavailable:
        await requests_in(here).handle([asked(request(covers))])
    await requests_in(whole).handle([asked(request(covers))])

    assert here.state() == whole.state()
    ends = [each.reports()[TENANT, "r"] for each in (here, whole)]
    assert ends[0].status is ends[1].status
    assert ends[0].documents == ends[1].documents
    assert ends[0].held == ends[1].held


class Pausing(World):
    """A world in which the first worker that takes this step is paused until another one is done with its request."""

    at = ""
    other: ErasureRequests

    async def covered(self, tenant: TenantId, covers: Coverage) -> CoveredDocuments:
        """Pause where documents are planned, or where they are looked up again once that was reported."""
        step = "resumed" if self.reports() else "planned"
        if self.at == step:
            self.at = ""
            await self.other.handle([asked(request())])
        return await super().covered(tenant, covers)


@pytest.mark.parametrize("step", ["planned", "resumed"])
async def test_a_worker_that_was_paused_while_another_one_did_its_request_does_not_replace_that_ones_proof(
    step: str,
) -> None:
    here = Pausing(world().documents)
    here.at, here.other = step, requests_in(here)

    await requests_in(here).handle([asked(request())])

    assert erased(here) == {A, B, C}
    (report,) = here.reports().values()
    assert report.status is ErasureStatus.ERASED
    removed = [bool(json.loads(each.report)["removed"]) for each in report.reports]
    assert removed == ([True] if step == "planned" else [True, False])


async def test_a_request_that_is_done_is_answered_again_and_not_done_again() -> None:
    here = world()
    handler = requests_in(here)
    await handler.handle([asked(request(reply_to="answers"))])
    first = here.reports()[TENANT, "r"]
    here.documents[A] = Kept(version=2)

    await handler.handle([asked(request(reply_to="answers"))])

    assert here.documents[A] == Kept(version=2), "published after the request was done: not part of it"
    assert here.reports()[TENANT, "r"] == first
    answers = [CODEC.decode(sent.value or b"") for sent in here.producer.to("answers")]
    assert answers == [first, first]
    body = json.loads(first.reports[0].report)
    assert body["documents"] == [{"id": "a", "version": 1}, {"id": "b", "version": 1}, {"id": "c", "version": 3}]
    assert canonical(body)


async def test_an_id_that_was_used_for_other_documents_is_refused_and_the_proof_stays() -> None:
    here = world()
    handler = requests_in(here)
    await handler.handle([asked(request(Coverage(documents=(A,))))])
    first = here.reports()

    with pytest.raises(InvalidRequest, match="of an earlier request"):
        await handler.handle([asked(request(Coverage(documents=(B,))))])

    assert here.reports() == first
    assert untouched(here) == {B, C}


async def test_an_id_that_was_used_for_another_value_of_an_attribute_is_refused() -> None:
    here = world()
    handler = requests_in(here)
    await handler.handle([asked(request(Coverage(attributes={"team": "x"})))])
    first = here.reports()

    with pytest.raises(InvalidRequest, match="of an earlier request"):
        await handler.handle([asked(request(Coverage(attributes={"team": "y"})))])
    await handler.handle([asked(request(Coverage(attributes={"team": "x"})))])

    assert here.reports() == first
    assert untouched(here) == {B, C}


@pytest.mark.parametrize("is_of_before", [True, False], ids=["a report of before", "another key"])
async def test_values_that_cannot_be_compared_refuse_no_repeated_request(*, is_of_before: bool) -> None:
    here, again = world(), request(Coverage(attributes={"team": "x"}))
    await requests_in(here).handle([asked(again)])
    if is_of_before:
        sent = here.producer.to(REPORTS)[-1]
        value = CODEC.encode(replace(here.reports()[TENANT, "r"], attributes_hash=""))
        here.producer.sent.append(replace(sent, value=value))
    first = here.reports()

    await requests_in(here, key=b"another").handle([asked(again)])

    assert here.reports() == first


async def test_a_version_that_comes_meanwhile_stays_and_is_named() -> None:
    here = world()
    erasure = here.erasure()
    plan = await erasure.plan(TENANT, ALL)
    here.documents[B].version = 2

    done = await erasure.run(plan, about={})

    assert erased(here) == {A, C}
    assert done.body["later_versions"] == [B]
    assert done.status is ErasureStatus.INCOMPLETE


async def test_erasures_at_once_find_and_remove_one_after_the_other() -> None:
    here, steps = world(), list[tuple[str, str]]()

    async def erase(name: DocumentId) -> None:
        erasure = here.erasure()
        await erasure.run(await erasure.plan(TENANT, Coverage(documents=(name,))), about={})

    def meanwhile(step: str) -> None:
        task = asyncio.current_task()
        if step in {"find", "remove"} and task is not None:
            steps.append((task.get_name(), step))

    here.meanwhile = meanwhile
    async with asyncio.TaskGroup() as group:
        for name in (A, B, C):
            group.create_task(erase(name), name=name)

    assert erased(here) == {A, B, C}
    removals = [at for at, (_, step) in enumerate(steps) if step == "remove"]
    assert len(removals) == len([A, B, C])
    for at in removals:
        who = steps[at][0]
        found = max(place for place, each in enumerate(steps[:at]) if each == (who, "find"))
        assert not any(step == "remove" for _, step in steps[found:at]), "another one removed after this one searched"


@pytest.mark.parametrize("is_in_use", [True, False])
async def test_an_erasure_that_waited_for_workers_in_vain_says_so(*, is_in_use: bool) -> None:
    here = world()
    here.unread = (UnreadRecords(topic="documents", partition=1, group="chunk", is_in_use=is_in_use),)

    erasure = here.erasure()
    done = await erasure.run(await erasure.plan(TENANT, ALL), about={})

    assert erased(here) == {A, B, C}
    assert done.body["unread"] == [{"topic": "documents", "partition": 1, "group": "chunk", "is_in_use": is_in_use}]
    # Of another generation nobody may ever run the workers.
    assert done.status is (ErasureStatus.INCOMPLETE if is_in_use else ErasureStatus.ERASED)


@pytest.mark.parametrize("step", ["remove", "roots"])
async def test_a_version_that_is_indexed_before_data_keys_are_destroyed_keeps_its_key(step: str) -> None:
    here = world()

    def meanwhile(name: str) -> None:
        if name == step and here.documents[B].version == 1:
            here.documents[B] = Kept(version=2, attributes={"team": "y"})

    here.meanwhile = meanwhile
    erasure = here.erasure()
    done = await erasure.run(await erasure.plan(TENANT, ALL), about={})

    assert here.documents[B].key
    assert erased(here) == {A, C}
    assert [each["id"] for each in done.body["documents"]] == [A, C]
    assert (done.body["later_versions"], done.body["to_reindex"]) == ([B], [])
    assert done.body["deleted_before_hold"] == []
    assert done.status is ErasureStatus.INCOMPLETE


async def test_a_version_that_is_indexed_while_data_keys_are_destroyed_is_named_to_be_made_anew() -> None:
    here = world()

    def meanwhile(name: str) -> None:
        if name == "destroy_keys":
            here.documents[B] = Kept(version=2, attributes={"team": "y"})

    here.meanwhile = meanwhile
    erasure = here.erasure()
    done = await erasure.run(await erasure.plan(TENANT, ALL), about={})

    assert not here.documents[B].key
    assert (done.body["later_versions"], done.body["to_reindex"]) == ([B], [B])
    assert done.status is ErasureStatus.INCOMPLETE


def where_one_is_held_and_one_gets_a_later_version() -> World:
    """Return a world with a hold on A, in which B gets version 2 while the others are deleted."""
    here = world()
    here.holds = [hold("h", Coverage(documents=(A,)))]

    def meanwhile(step: str) -> None:
        if step == "delete":
            here.documents[B].version = 2

    here.meanwhile = meanwhile
    return here


async def test_a_document_whose_hold_ends_is_erased_although_another_got_a_later_version() -> None:
    here = where_one_is_held_and_one_gets_a_later_version()
    handler = requests_in(here)
    await handler.handle([asked(request())])
    first = here.reports()[TENANT, "r"]
    here.holds.clear()
    await handler.resume()

    assert (first.status, first.held) == (ErasureStatus.INCOMPLETE, (A,))
    assert erased(here) == {A, C}
    last = here.reports()[TENANT, "r"]
    assert (last.status, last.held) == (ErasureStatus.INCOMPLETE, ()), "B still needs another request"
    assert [[each["id"] for each in json.loads(one.report)["documents"]] for one in last.reports] == [[C], [A]]


async def test_a_repeated_request_goes_on_with_what_is_not_held_any_more_and_nothing_else() -> None:
    here = where_one_is_held_and_one_gets_a_later_version()
    await requests_in(here).handle([asked(request())])
    here.holds.clear()
    await requests_in(here).handle([asked(request())])

    assert erased(here) == {A, C}
    assert here.reports()[TENANT, "r"].held == ()


async def test_without_receipts_a_request_waits_for_workers_and_nothing_is_removed() -> None:
    here = world()
    here.silent = True

    with pytest.raises(Unavailable, match="do workers run"):
        await requests_in(here).handle([asked(request())])

    assert here.reports()[TENANT, "r"].status is ErasureStatus.BEGUN
    assert all(each.content for each in here.documents.values())


async def test_values_of_attributes_are_not_kept_with_the_report() -> None:
    here = world()

    await requests_in(here).handle([asked(request(Coverage(attributes={"team": "x"})))])

    report = here.reports()[TENANT, "r"]
    assert report.covers == Coverage(attributes={"team": ""})
    assert report.attributes_hash
    assert erased(here) == {A}


@pytest.mark.parametrize(
    ("token", "is_done"),
    [(b"officer", True), (b"group", True), (b"user", False), (b"elsewhere", False), (b"forged", False), (None, False)],
)
async def test_with_tokens_only_requesters_erase_and_only_in_their_tenant(
    token: bytes | None, *, is_done: bool
) -> None:
    def who(tenant: str, *principals: str) -> Identity:
        return Identity(tenant=TenantId(tenant), principals=principals, subject=principals[0], token_id=None)

    tokens: dict[bytes, Identity | RefusalReason] = {
        b"officer": who("hr", "ada"),
        b"group": who("hr", "ben", "privacy"),
        b"user": who("hr", "cy"),
        b"elsewhere": who("sales", "ada", "privacy"),
    }
    here = world()

    await requests_in(here, requesters=["hr/ada", "hr/privacy", "sales/cy"], tokens=tokens).handle(
        [asked(request(), token)]
    )

    assert (erased(here) == {A, B, C}) is is_done
    assert (untouched(here) == {A, B, C}) is not is_done
    report = here.reports()[TENANT, "r"]
    assert (report.status is ErasureStatus.ERASED) is is_done
    if not is_done:
        (sent,) = here.producer.to(REPORTS)
        assert sent.key == b"r", "a refusal takes no place of a report"


@pytest.mark.parametrize("key", [report_key(TENANT, "r"), b' ["hr", "r"]'], ids=["of the report", "spaced"])
async def test_no_refusal_takes_the_place_of_a_report_whatever_key_its_request_has(key: bytes) -> None:
    here = world()
    here.holds = [hold("court", Coverage(documents=(A,)))]
    officer = Identity(tenant=TENANT, principals=("ada",), subject="ada", token_id=None)
    requests = requests_in(here, requesters=["hr/ada"], tokens={b"officer": officer})
    await requests.handle([asked(request(), b"officer")])
    before = here.reports()[TENANT, "r"]
    forged = replace(asked(request(), b"forged"), key=key)

    await requests.handle([forged])
    reports = Sink(Outbox(here.producer, NoOpTracer()), REPORTS, CODEC.encode)
    await reject_with_erasure_report(reports)(letter_of(key), forged)

    kept = [sent for sent in here.producer.to(REPORTS) if sent.key == report_key(TENANT, "r")]
    assert [CODEC.decode(sent.value or b"") for sent in kept][-1] == before
    assert len(here.producer.to(REPORTS)) == len(kept) + 2
    # Held documents are still waited for.
    here.holds = []
    await requests.resume()
    assert erased(here) == {A, B, C}


@pytest.mark.parametrize("reason", [RefusalReason.EXPIRED, RefusalReason.TOO_OLD])
@pytest.mark.parametrize(
    ("again", "goes_on"),
    [
        (request(), True),
        (request(request_id="never begun"), False),
        (request(Coverage(documents=(A,))), False),
    ],
    ids=["the same", "never begun", "other documents"],
)
async def test_a_token_that_expires_while_its_request_is_tried_again_does_not_end_it_half_done(
    reason: RefusalReason, again: ErasureRequest, *, goes_on: bool
) -> None:
    here, token = world(), b"officer"
    officer = Identity(tenant=TENANT, principals=("ada",), subject="ada", token_id=None)

    def dies(step: str) -> None:
        if step == "remove":
            raise Unavailable("killed")

    here.meanwhile = dies
    with pytest.raises(Unavailable):
        await requests_in(here, requesters=["hr/ada"], tokens={token: officer}).handle([asked(request(), token)])
    here.meanwhile = lambda _: None
    await requests_in(here, requesters=["hr/ada"], tokens={token: reason}).handle([asked(again, token)])

    assert (erased(here) == {A, B, C}) is goes_on
    told = [CODEC.decode(sent.value or b"") for sent in here.producer.to(REPORTS)]
    assert [(each.status, each.requested_by) for each in told] == [
        (ErasureStatus.BEGUN, "ada"),
        (ErasureStatus.ERASED, "ada") if goes_on else (ErasureStatus.REJECTED, ""),
    ]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (request(Coverage()), "exactly one"),
        (request(Coverage(documents=(A,), whole_tenant=True)), "exactly one"),
        (request(Coverage(documents=(DocumentId(" "),))), "empty"),
        (request(Coverage(attributes={"a": "b\n"})), "control character"),
        (request(Coverage(documents=tuple(DocumentId(str(n)) for n in range(10_001)))), "10000"),
        (request(request_id=" "), "request_id"),
        (request(request_id="retention:2026"), "'retention:' begins those of rules"),
        (request(tenant=TenantId("hr/a")), "holds '/'"),
        (request(reply_to="elsewhere"), "REPLY_TOPICS"),
    ],
)
async def test_a_request_that_breaks_a_rule_is_refused_with_the_fix(wrong: ErasureRequest, message: str) -> None:
    here = world()

    with pytest.raises(InvalidRequest, match=message):
        await requests_in(here).handle([asked(wrong)])

    assert untouched(here) == {A, B, C}
    assert not here.producer.sent


def test_a_request_under_another_key_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="key"):
        validate_erasure_request(request(), key=b"other")


def test_a_hold_that_covers_nothing_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="covers"):
        validate_case(hold("h", Coverage()))


def test_a_hold_of_what_is_no_tenant_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="holds '/'"):
        validate_case(hold("h", ALL, tenant=TenantId("hr/a")))
