import pytest

from freki.infra.http.errors import OF_SETTINGS, is_transient


@pytest.mark.parametrize("status", [408, 425, 429, 500, 501, 503, 599, 600, 999])
def test_server_errors_and_limits_of_the_moment_are_transient(status: int) -> None:
    assert is_transient(status)


@pytest.mark.parametrize("status", [200, 301, 400, 409, 410, 413, 422, *OF_SETTINGS])
def test_errors_of_the_request_or_of_settings_are_not_transient(status: int) -> None:
    assert not is_transient(status)
