"""Options that select documents of the index, and the documents that they select."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer
from rich.text import Text

from freki.cli.arguments import ArgumentGroup, Tenant, not_empty, pair
from freki.cli.context import console, fail
from freki.cli.prompts import agreed
from freki.infra.milvus.index import MilvusIndex
from freki.infra.settings import Settings
from freki.operators.identify import root_id
from freki.schemas import DocumentId, TenantId
from freki.schemas.index import Root, Selection
from freki.streams.documents.listing import selected
from freki.streams.wire.rules import fingerprints_of

SHOWN = 10
"""Documents shown of those that a command is about to change."""


@dataclass(frozen=True, kw_only=True)
class SelectionArguments(ArgumentGroup):
    """Conditions that documents meet all of."""

    panel: ClassVar[str | None] = "Which documents"

    tenant: Tenant = None
    prefix: Annotated[
        str | None, typer.Option(help="Beginning of the document id, such as handbook/", callback=not_empty)
    ] = None
    source: Annotated[
        str | None,
        typer.Option(help="Beginning of the source URI, such as https://example.org/docs/", callback=not_empty),
    ] = None
    language: Annotated[
        str | None, typer.Option(help="ISO 639-1 code, such as de; und: undetermined", callback=not_empty)
    ] = None
    attribute: Annotated[
        list[str] | None,
        typer.Option(help="Attribute and its value, as KEY=VALUE; may be repeated", callback=not_empty),
    ] = None
    principal: Annotated[
        list[str] | None,
        typer.Option(help="User or group that the document names as reader; may be repeated", callback=not_empty),
    ] = None

    def selection(self, settings: Settings, *, deleted: bool = False, otherwise: bool = False) -> Selection:
        """Return the selection of live or of deleted documents; otherwise: only of those made with other settings."""
        return Selection(
            tenant=TenantId(self.tenant or settings.tenant),
            prefix=self.prefix or "",
            source=self.source or "",
            language=self.language or "",
            principals=tuple(self.principal or ()),
            attributes=dict(pair(each) for each in self.attribute or ()),
            deleted=deleted,
            not_made_by=fingerprints_of(settings) if otherwise else frozenset(),
        )

    def is_given(self) -> bool:
        """Return whether there is a condition besides the tenant."""
        return any((self.prefix, self.source, self.language, self.attribute, self.principal))


async def chosen(index: MilvusIndex, selection: Selection, documents: Sequence[str]) -> list[Root]:
    """Return the roots of these documents, or of all that are selected where none is named."""
    if documents:
        return await roots_named(index, selection.tenant, list(dict.fromkeys(documents)))
    return [root async for root in selected(index, selection)]


async def roots_named(index: MilvusIndex, tenant: TenantId, names: Sequence[str]) -> list[Root]:
    """Return the roots of documents, in order; end the command if the index does not know one."""
    keys = {name: root_id(tenant, DocumentId(name)) for name in names}
    found = await index.roots(list(keys.values()))
    for name, key in keys.items():
        if key not in found:
            fail(
                f"tenant {tenant} has no document {name!r}: `freki documents list` shows them;"
                " --tenant selects another tenant"
            )
    return [found[key] for key in keys.values()]


def is_agreed(roots: Sequence[Root], what: str, *, yes: bool) -> bool:
    """Show the first of the selected documents and ask; end the command where nobody can answer.

    what: is to be done, in the infinitive.
    """
    for root in roots[:SHOWN]:
        console.print(Text(root.document_id), soft_wrap=True)
    if len(roots) > SHOWN:
        console.print(f"… and {len(roots) - SHOWN} more")
    return yes or agreed(what)
