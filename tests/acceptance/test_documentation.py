"""What the documentation shows does what it says."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from freki.infra.settings import Settings
from freki.infra.settings.table import table
from freki.schemas.avro import export_schemas
from tests.acceptance.conftest import Freki
from tests.acceptance.helpers import ask, documents

DOCS = Path(__file__).parents[2] / "docs"
LOOKS = 100
TENANT = "documentation"


async def run(program: str, folder: Path) -> str:
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = await asyncio.to_thread(subprocess.run, command, cwd=folder, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_clients_without_freki_publish_a_document_and_ask_for_it(freki: Freki, tmp_path: Path) -> None:
    page = (DOCS / "topics.md").read_text(encoding="utf-8")
    programs = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    # A tenant of its own: other tests publish to the default one, too.
    publishing, asking = (
        program.replace("127.0.0.1:9092", freki.settings.kafka.bootstrap)
        .replace('"default"', f'"{TENANT}"')
        .replace("default/notes/1", f"{TENANT}/notes/1")
        for program in programs
    )
    export_schemas(tmp_path)

    await run(publishing, tmp_path)

    found: Sequence[str] = []
    for _ in range(LOOKS):
        found = found or documents(await ask(freki, TENANT, "Wie ist der Antrag zu stellen?"))
    assert found == ["notes/1"]
    printed = await run(asking, tmp_path)
    assert printed.splitlines() == ["COMPLETE", "1 notes/1 Der Antrag ist schriftlich zu stellen."]


def test_the_page_of_settings_is_up_to_date() -> None:
    assert (DOCS / "settings.md").read_text(encoding="utf-8") == table(), "run `make docs`"


def test_the_readme_names_only_settings_that_exist() -> None:
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    known = table()

    assert Settings.model_config["env_prefix"] == "FREKI_"
    assert [name for name in re.findall(r"FREKI_[A-Z_]+", readme) if f"`{name}`" not in known] == []
