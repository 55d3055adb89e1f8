"""In whatever zone a machine is, also when clocks are changed and on leap days, the same is due, a day and signed."""

import json
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from freki.infra.llm.ledger import today
from freki.infra.signing import make_key, read_verifier
from freki.operators.backups import name_of, time_of, wait_s
from freki.operators.retain import RetentionAction, RetentionClock, RetentionRule, due_by
from freki.schemas import Timestamp
from freki.schemas.attribute_values import time_of as named_time
from freki.schemas.stated_time import stated_time
from freki.streams.privacy.erasure import canonical, signed
from freki.streams.topics import DAY_MS
from tests.contract.index_records import root

pytestmark = pytest.mark.usefixtures("zone")
in_each_zone = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)

# Nights in which clocks are changed, in Berlin, St. John's and on Lord Howe Island; leap days, ends of a year.
DAYS = st.sampled_from(
    [
        *(date(2026, 3, day) for day in (8, 29)),
        *(date(2026, 10, day) for day in (4, 25)),
        *(date(2026, month, 1) for month in (1, 4, 11)),
        date(2028, 2, 28),
        date(2028, 2, 29),
        date(2028, 3, 1),
        date(2027, 12, 31),
    ]
)
MOMENTS = st.builds(
    lambda day, seconds: datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(seconds=seconds),
    DAYS,
    st.integers(0, 86_399),
)


def ms(moment: datetime) -> Timestamp:
    return Timestamp((moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1))


@given(moment=MOMENTS, days=st.integers(1, 800))
@in_each_zone
def test_a_document_is_due_after_so_many_times_24_hours(moment: datetime, days: int) -> None:
    rule = RetentionRule(
        name="r", after_ms=days * DAY_MS, since=RetentionClock.PUBLISHED, action=RetentionAction.DELETE
    )
    one = root("a", recorded_at=ms(moment))
    at = ms(moment + timedelta(days=days))

    due = due_by(one, [rule], by=at)

    assert due is not None
    assert due.at == at
    assert due_by(one, [rule], by=Timestamp(at - 1)) is None


@given(moment=MOMENTS)
@in_each_zone
def test_the_tokens_of_a_day_are_those_of_the_day_that_limits_count(moment: datetime) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("freki.infra.llm.ledger.datetime", _At(moment))
        assert date.fromisoformat(today()) == date(1970, 1, 1) + timedelta(days=ms(moment) // DAY_MS)


@given(moment=MOMENTS, hours=st.integers(-30, 30), every_h=st.integers(1, 48))
@in_each_zone
def test_a_backup_is_due_after_its_interval_and_never_waits_for_a_clock_that_was_ahead(
    moment: datetime, hours: int, every_h: int
) -> None:
    name, now = name_of(ms(moment)), ms(moment + timedelta(hours=hours))

    waits = wait_s([name], every_s=every_h * 3_600, now=now)

    assert time_of(name) == ms(moment)
    assert waits == (0 if hours < 0 else max(0, every_h - hours) * 3_600)


@given(moment=MOMENTS, offset_min=st.integers(-14 * 60, 14 * 60))
@in_each_zone
def test_times_of_documents_and_attributes_are_the_moments_that_they_name(moment: datetime, offset_min: int) -> None:
    sign, (hours, minutes) = "-" if offset_min < 0 else "+", divmod(abs(offset_min), 60)
    there = moment + timedelta(minutes=offset_min)
    text = f"{there:%Y-%m-%dT%H:%M:%S}{sign}{hours:02}:{minutes:02}"

    assert stated_time(text) == f"{moment:%Y-%m-%dT%H:%M:%S}Z"
    span = named_time(text)
    assert span is not None
    assert (span.start, span.end) == (ms(moment), ms(moment) + 1_000)
    day = named_time(f"{moment:%Y-%m-%d}")
    assert day is not None
    assert day.start <= ms(moment) < day.end == day.start + DAY_MS


@given(moment=MOMENTS)
@in_each_zone
def test_a_report_that_was_signed_in_one_zone_is_read_in_another(
    moment: datetime, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder: Path = tmp_path_factory.mktemp("key")
    key = make_key(folder / "freki.key")
    (folder / "public.pem").write_text(key.public_pem)
    report = signed({"begun_ms": ms(moment), "documents": [{"id": "Bescheid März", "version": 1}]}, key.sign)

    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TZ", "Pacific/Chatham")
        time.tzset()
        body = json.loads(report.report)
        is_signed = read_verifier([folder / "public.pem"])(canonical(body), report.signature)
    time.tzset()

    assert is_signed
    assert body["begun_ms"] == ms(moment)


class _At:
    """A clock that stands."""

    def __init__(self, moment: datetime) -> None:
        self._moment = moment

    def now(self, zone: object) -> datetime:
        assert zone is UTC
        return self._moment
