"""With a schema registry the whole pipeline speaks Confluent's wire format."""

from pathlib import Path

import pytest

from freki.infra.local.stack import LocalStack
from freki.infra.local.state import settings_for
from freki.infra.settings import Settings
from freki.streams.wire.from_settings import topics_of
from freki.streams.wire.provision import apply_topics
from tests.acceptance.conftest import ONE_WORKER, Children, Freki
from tests.acceptance.helpers import all_values, ask, documents, publish, upsert
from tests.contract.registry_server import running_registry


async def test_records_carry_the_ids_of_the_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_registry() as registry:
        monkeypatch.setenv("FREKI_REGISTRY__URL", registry.url)
        settings = Settings(local=Settings().local.elsewhere(tmp_path))
        children = Children()
        async with LocalStack(settings, report=children.report, prepare=apply_topics, workers=ONE_WORKER) as stack:
            freki = Freki(settings_for(settings, stack.state), children)
            await publish(freki, upsert("t", "d", "Die Frist endet im Mai."))
            result = await ask(freki, "t", "Wann endet die Frist?")
            values = await all_values(freki)

    assert documents(result) == ["d"]
    # A document, its chunks twice, its outcome, a question and its answer.
    assert len(values) == 6
    assert len(registry.subjects) == sum(topic.holds is not None for topic in topics_of(settings))
    assert {value[:1] for value in values} == {b"\x00"}
