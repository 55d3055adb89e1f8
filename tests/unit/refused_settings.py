"""How commands refuse settings."""

import pytest
import typer

from freki.cli.context import load_settings


def refusal(capsys: pytest.CaptureFixture[str]) -> str:
    """Return what a command prints that cannot read its settings, as one line."""
    with pytest.raises(typer.Exit) as ended:
        load_settings()
    assert ended.value.exit_code == 2
    return " ".join(capsys.readouterr().err.split())
