"""Times of documents in one form, which sorts as time does."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.schemas.stated_time import stated_time


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("D:20260131093000+01'00'", "2026-01-31T08:30:00Z"),
        ("D:20260131093000Z", "2026-01-31T09:30:00Z"),
        ("D:20260131093000-05'30", "2026-01-31T15:00:00Z"),
        ("D:20260131093000", "2026-01-31T09:30:00"),
        ("D:20260131", "2026-01-31"),
        ("D:2026", "2026"),
        ("20260131093000Z", "2026-01-31T09:30:00Z"),
        ("2026-01-31T09:30:00Z", "2026-01-31T09:30:00Z"),
        ("2026-01-31T09:30:00.123456789", "2026-01-31T09:30:00"),
        (" 2026-01-31 ", "2026-01-31"),
        ("2026-01", "2026-01"),
        ("2026", "2026"),
        ("D:20261331", ""),
        ("2026-13", ""),
        ("gestern", ""),
        ("0001-01-01T00:00:00+14:00", ""),
        ("D:", ""),
        ("", ""),
    ],
)
def test_times_of_pdf_and_office_files_are_iso(text: str, expected: str) -> None:
    assert stated_time(text) == expected


@given(moment=st.datetimes(min_value=datetime(1900, 1, 1, tzinfo=UTC).replace(tzinfo=None), timezones=st.just(UTC)))
def test_a_time_is_kept_to_the_second(moment: datetime) -> None:
    assert stated_time(moment.isoformat()) == moment.isoformat(timespec="seconds").replace("+00:00", "Z")


@given(text=st.text(alphabet="D:0123456789+-'TZ.", max_size=25))
def test_whatever_a_file_states_is_a_time_or_nothing(text: str) -> None:
    shown = stated_time(text)

    assert shown == "" or stated_time(shown) == shown
