import httpx
import pytest

from freki.infra.http.errors import OF_SETTINGS, is_transient, refusal
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
