"""Command line of Freki: `freki --help`."""

from importlib.metadata import version
from typing import Annotated

import typer

from freki.cli import (
    ask,
    audit,
    compare_generations,
    crawl,
    dead_letters,
    delete,
    documents,
    erase,
    export_index,
    generations,
    git,
    groups,
    import_index,
    judge,
    keys,
    operate,
    publish,
    reindex,
    relay,
    schemas,
    serve,
    settings,
    status,
    tools,
    verify,
)
from freki.cli.evaluate import ablate, evaluate, tune


def _print_version(asked: bool) -> None:  # noqa: FBT001 - as typer calls it
    if asked:
        typer.echo(f"freki {version('freki')}")
        raise typer.Exit


app = typer.Typer(
    name="freki",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def common(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Keeps a search index consistent with a stream of document changes and answers queries from it.

    Exit codes: 0 done; 1 failed, or something of it; 2 wrong options or settings; 3 nothing was found (ask);
    130 interrupted.
    """


app.command("up")(operate.up)
app.command("publish")(publish.publish)
app.command("watch")(publish.watch_folder)
app.command("git")(git.publish_git)
app.command("crawl")(crawl.crawl)
app.command("relay")(relay.relay)
app.add_typer(documents.documents_app, name="documents")
app.command("delete")(delete.delete)
app.add_typer(erase.erase_app, name="erase")
app.command("reindex")(reindex.reindex)
app.command("ask")(ask.ask)
app.add_typer(judge.judge_app, name="judge")
app.add_typer(groups.groups_app, name="groups")
app.add_typer(audit.audit_app, name="audit")
app.add_typer(keys.keys_app, name="keys")
app.command("tools")(tools.describe)
app.command("mcp")(tools.serve)
app.command("serve")(serve.serve)
app.command("verify")(verify.verify)
app.command("export")(export_index.export_index)
app.command("import")(import_index.import_index)
app.command("eval")(evaluate.evaluate)
app.command("tune")(tune.tune)
app.command("ablate")(ablate.ablate)
app.command("status")(status.status)
generations.generations_app.command("compare")(compare_generations.compare_generations)
app.add_typer(generations.generations_app, name="generations")
app.add_typer(operate.topics_app, name="topics")
app.add_typer(operate.models_app, name="models")
app.add_typer(schemas.schemas_app, name="schemas")
app.add_typer(settings.settings_app, name="settings")
app.add_typer(dead_letters.letters_app, name="dead-letters")
app.command("worker")(operate.worker)


def main() -> None:
    """Run the command line."""
    app()
