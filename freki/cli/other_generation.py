"""Tells producers that another generation answers than the one that their receipts come from."""

from contextlib import suppress

from freki.cli.context import errors
from freki.cli.show import show_error
from freki.infra.settings import Settings
from freki.schemas.errors import InfraError
from freki.schemas.index import serving
from freki.streams.wire.connect import open_generations


async def show_other_generation(settings: Settings) -> None:
    """Print what it means if another generation answers; nothing if the store does not say which one does."""
    with suppress(InfraError):
        async with open_generations(settings) as log:
            last, own = serving(await log.entries()), settings.milvus.generation
            if last is not None and last.generation != own:
                show_error(
                    errors,
                    f"receipts come from generation {own} (FREKI_MILVUS__GENERATION), but {last.generation} answers,"
                    " and quotes what is deleted or replaced until it has that too: let the workers fill"
                    f" {last.generation} and set it here, or run `freki generations create {last.generation}`",
                )
