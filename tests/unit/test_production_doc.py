import re
import tomllib
from pathlib import Path

import freki
from freki.infra.settings import Settings

DOC = Path(freki.__file__).parents[1] / "docs" / "production.md"


def test_the_settings_shown_for_production_are_settings() -> None:
    shown = re.search(r"```toml\n(.*?)```", DOC.read_text(), re.DOTALL)
    assert shown

    settings = Settings(**tomllib.loads(shown[1]))

    assert settings.kafka.security == "SASL_SSL"
    assert settings.milvus.partition_key
