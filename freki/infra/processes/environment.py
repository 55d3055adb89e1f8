"""Environment of processes that read the content of documents."""

import os


def without_settings() -> dict[str, str]:
    """Return the environment of this process without settings: secrets are among them, and content is hostile."""
    return {name: value for name, value in os.environ.items() if not name.upper().startswith("FREKI_")}
