"""What the documentation shows does what it says."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from freki.infra.settings import Settings
from freki.infra.settings_table import table
from freki.schemas.avro import export_schemas
from tests.acceptance.conftest import Freki
from tests.acceptance.helpers import ask, documents

DOCS = Path(__file__).parents[2] / "docs"
LOOKS = 100


async def test_a_producer_without_freki_publishes_a_document(freki: Freki, tmp_path: Path) -> None:
    page = (DOCS / "topics.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    program = program.replace("127.0.0.1:9092", freki.settings.kafka.bootstrap)
    export_schemas(tmp_path)

    await asyncio.to_thread(subprocess.run, [sys.executable, "-W", "ignore", "-c", program], cwd=tmp_path, check=True)

    found: Sequence[str] = []
    for _ in range(LOOKS):
        found = found or documents(await ask(freki, "default", "Wie ist der Antrag zu stellen?"))
    assert found == ["notes/1"]


def test_the_page_of_settings_is_up_to_date() -> None:
    assert (DOCS / "settings.md").read_text(encoding="utf-8") == table(), "run `make docs`"


def test_the_readme_names_only_settings_that_exist() -> None:
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    known = table()

    assert Settings.model_config["env_prefix"] == "FREKI_"
    assert [name for name in re.findall(r"FREKI_[A-Z_]+", readme) if f"`{name}`" not in known] == []
