"""What takes seconds to start, once for the session: the whole stack of the acceptance tests, and a secured broker."""

from collections.abc import Iterator

import pytest

from tests.acceptance.conftest import freki
from tests.kafka.identity_provider import IdentityProvider, identity_provider
from tests.kafka.secured import Secured, secured_kafka

__all__ = ["freki"]


@pytest.fixture(scope="session")
def provider() -> Iterator[IdentityProvider]:
    with identity_provider() as running:
        yield running


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory, provider: IdentityProvider) -> Iterator[Secured]:
    with pytest.MonkeyPatch.context() as patch:
        # A broker asks no address for keys that its administrator did not name.
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={provider.url}/keys"
        patch.setenv("JAVA_TOOL_OPTIONS", allowed)
        with secured_kafka(tmp_path_factory.mktemp("secured"), provider) as broker:
            yield broker
