"""`freki rectify`: after a corrected version was published, remove what older versions said."""

from typing import Annotated

import typer

from freki.cli.arguments import LEAST_WAIT_S, Tenant, finite, not_empty
from freki.cli.cases import by_user, whose
from freki.cli.context import command, load_settings
from freki.cli.erase import REMOVING, Key, Report, signing_key, write_report
from freki.cli.prompts import agreed
from freki.cli.receipts import PATIENCE_S
from freki.cli.slow import message_if_slow
from freki.cli.words import counted
from freki.schemas import DocumentId
from freki.streams.wire.erasing import open_rectification


@command
async def rectify(
    documents: Annotated[
        list[str], typer.Argument(help="Ids of documents whose corrected version is indexed", callback=not_empty)
    ],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Remove without asking")] = False,
    report: Report,
    key: Key = None,
    tenant: Tenant = None,
    patience: Annotated[
        float,
        typer.Option(help="Longest wait for workers to have read work topics", min=LEAST_WAIT_S, callback=finite),
    ] = PATIENCE_S,
) -> None:
    """Remove the content of versions before the indexed one from topics, claims and dead letters, with a report.

    Publish the corrected version first, by `freki publish --wait` or however the document came.
    """
    settings = load_settings()
    signer = signing_key(settings, key, report)
    if not (yes or agreed(f"remove older versions of {counted(len(documents), 'document')}")):
        raise typer.Exit(1)
    names = [DocumentId(each) for each in dict.fromkeys(documents)]
    async with open_rectification(settings, signer, by=by_user(), patience_s=patience) as rectification:
        with message_if_slow(REMOVING):
            done = await rectification.run(whose(settings, tenant), names, about={"requested_by": by_user()})
    write_report(report, done)
    if done.status != "ERASED":
        raise typer.Exit(1)
