"""`freki hold list` and `freki object list` show what services wrote, whatever time that has."""

from collections.abc import AsyncIterator

import pytest
from typer.testing import CliRunner

from freki.cli.main import app
from freki.schemas import Coverage, DocumentId, Hold, Objection, TenantId, Timestamp
from freki.streams.privacy.current_cases import case_key
from freki.streams.wire import cases

pytestmark = pytest.mark.usefixtures("folder")

TENANT, COVERS = TenantId("default"), Coverage(whole_tenant=True)


@pytest.mark.parametrize("command", ["hold", "object"])
@pytest.mark.parametrize("time", [-1, 0, 1_760_000_000_000_000_000, 2**63 - 1])
def test_a_case_whose_time_is_none_is_listed_without_it(
    monkeypatch: pytest.MonkeyPatch, command: str, time: int
) -> None:
    at = Timestamp(time)
    hold = Hold(tenant=TENANT, name="case-7", covers=COVERS, reason="", placed_by="", placed_at=at)
    objection = Objection(tenant=TENANT, name="case-7", covers=COVERS, reason="", recorded_by="", recorded_at=at)

    async def read(_: object, __: object, kind: type[Hold | Objection]) -> AsyncIterator[tuple[bytes, object]]:
        yield case_key(TENANT, "case-7"), hold if kind is Hold else objection

    monkeypatch.setattr(cases, "current_values", read)

    shown = CliRunner().invoke(app, [command, "list"], env={"COLUMNS": "200"})

    assert (shown.exit_code, "case-7" in shown.output) == (0, True)


@pytest.mark.parametrize("words", [("hold", "release"), ("object", "lift")])
def test_a_case_that_is_not_there_is_told_with_the_tenant_that_was_looked_at(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, str]
) -> None:
    async def read(*_: object) -> AsyncIterator[tuple[bytes, object]]:
        return
        yield

    monkeypatch.setattr(cases, "current_values", read)

    ended = CliRunner().invoke(app, [*words, "case-7"], env={"COLUMNS": "200", "FREKI_TENANT": "hr"})

    assert ended.exit_code == 1
    assert all(each in ended.output for each in ("tenant hr", "case-7", "--tenant"))


A, B = DocumentId("a"), DocumentId("b")


@pytest.mark.parametrize(
    ("before", "now", "left"),
    [
        (Coverage(documents=(A, B)), Coverage(documents=(B,)), "a"),
        (Coverage(documents=(A,)), Coverage(documents=(B, A)), ""),
        (Coverage(documents=(A,)), Coverage(attributes={"subject": "1"}), "a"),
        (Coverage(documents=(A,)), COVERS, ""),
        (COVERS, Coverage(documents=(A,)), "all of the tenant"),
        (Coverage(attributes={"subject": "1", "year": "2"}), Coverage(attributes={"subject": "1"}), ""),
        (Coverage(attributes={"subject": "1"}), Coverage(attributes={"subject": "1", "year": "2"}), "subject=1"),
    ],
)
def test_what_a_case_named_and_its_replacement_does_not_cover_is_known(
    before: Coverage, now: Coverage, left: str
) -> None:
    beyond = before.beyond(now)

    assert (str(beyond), bool(beyond.ways)) == (left, bool(left))
