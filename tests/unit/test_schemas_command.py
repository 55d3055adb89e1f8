import re

from typer.testing import CliRunner

from freki.cli.main import app
from freki.schemas.avro import TOPICS, list_schemas


def test_the_command_says_that_all_frozen_versions_are_unchanged() -> None:
    shown = CliRunner().invoke(app, ["schemas", "check"])

    assert shown.exit_code == 0
    assert f"{sum(entry.version for entry in list_schemas())} frozen versions are unchanged" in shown.output


def test_the_list_fits_into_80_columns_and_cuts_nothing_off() -> None:
    shown = CliRunner().invoke(app, ["schemas", "list"], env={"COLUMNS": "80"})

    assert all(entry.fingerprint in shown.output for entry in list_schemas())
    assert len(re.findall(r" [0-9a-f]{12}\b", shown.output)) == len(TOPICS)
