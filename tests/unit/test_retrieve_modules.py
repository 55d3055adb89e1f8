"""The list of modules in `freki.streams.retrieve` is complete and true."""

import re
from pathlib import Path

from freki.streams import retrieve


def test_every_module_is_listed_and_every_listed_module_exists() -> None:
    assert retrieve.__doc__ is not None
    (folder,) = retrieve.__path__
    names = re.findall(r"^([a-z_]+(?:, [a-z_]+)*) {2,}\S", retrieve.__doc__, re.MULTILINE)

    listed = {name for line in names for name in line.split(", ")}

    assert listed == {path.stem for path in Path(folder).rglob("*.py")} - {"__init__"}
