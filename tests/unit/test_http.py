import pytest

from freki.infra.http.errors import OF_SETTINGS, may_pass


@pytest.mark.parametrize("status", [408, 425, 429, 500, 501, 503, 599, 600, 999])
def test_what_is_up_to_the_server_or_to_the_hour_may_pass(status: int) -> None:
    assert may_pass(status)


@pytest.mark.parametrize("status", [200, 301, 400, 409, 410, 413, 422, *OF_SETTINGS])
def test_what_is_up_to_the_request_or_to_settings_does_not_pass(status: int) -> None:
    assert not may_pass(status)
