from datetime import UTC, datetime, timedelta

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from freki.infra.http.errors import OF_SETTINGS, is_transient, refusal
from freki.infra.http.retry_after import retry_after_s
from freki.schemas.errors import Misconfigured


@pytest.mark.parametrize("status", [408, 425, 429, 500, 501, 503, 599, 600, 999])
def test_server_errors_and_limits_of_the_moment_are_transient(status: int) -> None:
    assert is_transient(status)


@pytest.mark.parametrize("status", [200, 301, 400, 409, 410, 413, 422, *OF_SETTINGS])
def test_errors_of_the_request_or_of_settings_are_not_transient(status: int) -> None:
    assert not is_transient(status)


@pytest.mark.parametrize("status", [301, 302, 307, 308, *OF_SETTINGS])
def test_an_address_that_leads_elsewhere_is_a_wrong_setting(status: int) -> None:
    response = httpx.Response(status, headers={"Location": "https://login.example.org/"})

    assert isinstance(refusal(response, "it answered", hint="see the settings"), Misconfigured)


@given(st.from_regex(r"(Mon, )?\d{1,3} Jan \d{1,6} \d{2}:\d{2}:\d{1,25} ([+-]\d{1,25}|GMT|)", fullmatch=True))
@example("Mon, 01 Jan 2024 00:00:00 +99999999999999")
@example("Mon, 01 Jan 2024 00:00:99999999999 GMT")
@example("Fri, 31 Dec 9999 23:59:59 -2359")
@example("9" * 5_000)
def test_whatever_a_service_asks_to_wait_is_a_time_or_nothing(header: str) -> None:
    found = retry_after_s(header)

    assert found is None or found >= 0


@pytest.mark.parametrize("form", ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"])
def test_dates_of_all_forms_of_http_are_read(form: str) -> None:
    later = (datetime.now(UTC) + timedelta(days=20)).strftime(form)

    found = retry_after_s(later)

    assert found is not None
    assert found > timedelta(days=19).total_seconds()
