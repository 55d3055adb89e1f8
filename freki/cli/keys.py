"""`freki keys`: keys of the encryption at rest: make, show, rotate, and rewrap data keys."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from freki.cli.arguments import given_path
from freki.cli.context import command, console, fail, load_settings
from freki.cli.terminal import ignoring_output_errors
from freki.cli.words import counted
from freki.infra.claims import ClaimStore
from freki.infra.keys import KeyService, cipher_of, key_service, make_keys
from freki.infra.milvus.index import MilvusIndex
from freki.infra.settings import Settings
from freki.schemas.index import offered
from freki.streams.wire.connect import open_generations, open_index
from freki.streams.wire.from_settings import settings_named
from freki.streams.wire.rules import fingerprints_of
from freki.streams.wire.serving import settings_of

keys_app = typer.Typer(help="Keys of the encryption at rest.", no_args_is_help=True)


@keys_app.command("make")
@command
async def make(
    file: Annotated[Path, typer.Argument(parser=given_path, help="New file, which only you can read")],
) -> None:
    """Make a key file, for FREKI_ENCRYPTION__KEY_FILE. Keep a copy: without it nothing encrypted can be read."""
    make_keys(file)
    console.print(f"version 1 in {file}", soft_wrap=True)


@keys_app.command("show")
@command
async def show() -> None:
    """Show the versions of the key, and how many data keys each wraps; plain documents are counted too."""
    settings = load_settings()
    service = _service(settings)
    held = await service.versions()
    counts = {name: await index.key_versions() async for name, index in _encrypted(settings)}
    table = Table("version", "state", *(f"data keys of {name}" for name in counts))
    for version in sorted({*held, *(number for each in counts.values() for number in each)}):
        state = "current" if version == held[-1] else "reads" if version in held else "missing"
        table.add_row(str(version), state, *(str(each.get(version, 0)) for each in counts.values()))
    console.print(table)
    async with open_index(settings) as index:
        otherwise = await index.count_made_otherwise(fingerprints_of(settings))
    if otherwise:
        console.print(
            f"{counted(otherwise, 'document')} of {settings.milvus.generation} made with other settings, perhaps "
            "plain: `freki reindex` encrypts them",
            soft_wrap=True,
        )


@keys_app.command("rotate")
@command
async def rotate() -> None:
    """Make a new version of the key, which wraps new data keys; older versions are still needed to read."""
    version = await _service(load_settings()).rotate()
    console.print(f"version {version} is the current one; `freki keys rewrap` wraps older data keys by it too")


@keys_app.command("rewrap")
@command
async def rewrap() -> None:
    """Wrap data keys of all generations and claims by the current version, while workers run.

    Claims that are still plain are encrypted.
    """
    settings = load_settings()
    _service(settings)
    async for name, index in _encrypted(settings):
        wrapped = await index.rewrap_keys()
        # A reader of the output that ended must not leave the other generations and claims as they are.
        with ignoring_output_errors(console):
            console.print(f"{name}: {counted(wrapped, 'data key')}")
    claims = await ClaimStore(settings.claims, cipher_of(settings.encryption)).rewrap()
    console.print(f"{counted(claims, 'claim')}")


def _service(settings: Settings) -> KeyService:
    service = key_service(settings.encryption)
    if service is None:
        fail("nothing is encrypted: FREKI_ENCRYPTION__KEYS is not set", code=2)
    return service


async def _encrypted(settings: Settings) -> AsyncIterator[tuple[str, MilvusIndex]]:
    """Yield each encrypted generation, opened."""
    async with open_generations(settings) as log:
        entries = offered(await log.entries())
        names = [name for name in await log.stored() if await log.is_encrypted(name)]
    for name in names:
        own = settings_of(settings, entries[name]) if name in entries else settings_named(settings, name)
        async with open_index(own) as index:
            yield name, index
