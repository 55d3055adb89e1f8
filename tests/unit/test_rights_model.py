"""The model that `make rights` compares answers with: it finds what it is there to find."""

import pytest

from freki.schemas import (
    DocumentId,
    DocumentReport,
    IndexOutcome,
    OutcomeStatus,
    QueryId,
    ReportStatus,
    TenantId,
    Timestamp,
)
from tests.rights.drawing import Drawing
from tests.rights.model import Key, Model, State
from tests.unit.receipts import a_receipt

ADA, EVE = Key("hr", "ada"), Key("hr", "eve")
OLD, NEW, OTHER = "zx0000000001", "zx0000000002", "zx0000000003"
DOCUMENT, FOREIGN = Key("hr", "doc-000000000a"), Key("sales", "doc-000000000b")


def said(message: str, status: ReportStatus = ReportStatus.FOUND) -> DocumentReport:
    return DocumentReport(
        query_id=QueryId("q"),
        tenant=TenantId("hr"),
        status=status,
        message=message,
        generation="g",
        asked_at=Timestamp(1),
        answered_at=Timestamp(2),
        total=0,
        next=None,
    )


def receipt(version: int) -> IndexOutcome:
    return a_receipt(
        OutcomeStatus.INDEXED,
        tenant=TenantId(DOCUMENT.tenant),
        document_id=DocumentId(DOCUMENT.name),
        version=version,
    )


@pytest.fixture
def model() -> Model:
    found = Model()
    found.publish(DOCUMENT, State(1, OLD, frozenset({"ada"})))
    found.publish(FOREIGN, State(1, OTHER, frozenset({"everyone"})))
    return found


def is_wrong(model: Model, user: Key, message: str, *groups: str, named: str = "") -> bool:
    model.wrong.clear()
    model.judge(said(message), user, frozenset({user.name, *groups}), model.moment(user), named=named)
    return bool(model.wrong)


@pytest.mark.parametrize("secret", [OLD, DOCUMENT.name])
def test_who_is_among_the_readers_may_be_told(model: Model, secret: str) -> None:
    assert not is_wrong(model, ADA, f"it says {secret}")
    assert is_wrong(model, EVE, f"it says {secret}")


def test_nothing_of_another_tenant_and_nothing_unknown_may_be_told(model: Model) -> None:
    assert is_wrong(model, ADA, OTHER)
    assert is_wrong(model, ADA, "zx00000000ff")
    assert not is_wrong(model, Key("sales", "ada"), OTHER)


def test_what_was_asked_for_by_name_may_be_named_but_not_quoted(model: Model) -> None:
    assert not is_wrong(model, EVE, f"no document {DOCUMENT.name}", named=DOCUMENT.name)
    assert is_wrong(model, EVE, f"no document {DOCUMENT.name} with {OLD}", named=DOCUMENT.name)


def test_what_a_receipt_outdated_may_be_told_to_those_who_asked_before_it(model: Model) -> None:
    before = model.moment(ADA)
    model.publish(DOCUMENT, State(2, NEW, frozenset({"eve"})))
    assert not is_wrong(model, ADA, OLD)
    assert not is_wrong(model, EVE, NEW)

    model.receive(receipt(2))

    assert is_wrong(model, ADA, OLD)
    assert is_wrong(model, ADA, DOCUMENT.name)
    model.wrong.clear()
    model.judge(said(OLD), ADA, frozenset({"ada"}), before)
    assert not model.wrong


def test_the_text_of_what_was_deleted_is_gone_and_its_id_may_be_known(model: Model) -> None:
    model.delete(DOCUMENT, 2)
    model.receive(receipt(2))

    assert is_wrong(model, ADA, OLD)
    assert not is_wrong(model, ADA, DOCUMENT.name)
    assert is_wrong(model, EVE, DOCUMENT.name)
    assert not list(model.readable(ADA, frozenset({"ada"})))


def test_groups_count_until_their_change_has_passed(model: Model) -> None:
    model.publish(DOCUMENT, State(2, NEW, frozenset({"board"})))
    groups = model.groups_of(EVE)
    groups.states += [frozenset({"board"}), frozenset()]

    assert not is_wrong(model, EVE, NEW)
    groups.passed(2)
    assert is_wrong(model, EVE, NEW)
    assert not is_wrong(model, EVE, NEW, "board")


def test_a_refusal_says_nothing(model: Model) -> None:
    model.refuse(said("refused", ReportStatus.REJECTED), ADA, "expired")
    assert not model.wrong
    model.refuse(said(OLD, ReportStatus.REJECTED), ADA, "expired")
    model.refuse(said("nothing found"), ADA, "expired")
    assert len(model.wrong) == 2


def test_a_seed_gives_the_same_operations_whatever_is_drawn_meanwhile() -> None:
    alone, beside = (Drawing(7, ("expired", "unsigned")) for _ in range(2))

    operations = []
    for operation in beside.draw(50):
        beside.word()
        operations.append(operation)

    assert operations == list(alone.draw(50))
