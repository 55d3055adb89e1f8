"""A secured broker for the whole session: it takes seconds to start."""

from collections.abc import Iterator

import pytest

from tests.kafka.secured import Secured, secured_kafka


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_kafka(tmp_path_factory.mktemp("secured"), {}) as broker:
        yield broker
