"""Command line of Freki: `freki --help`."""

import io
import os
import sys
from contextlib import suppress
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated

import typer

from freki.cli.lazy import Lazy, lazy_group
from freki.infra.durable_files import FULL

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

COMMANDS = {
    "up": Lazy("up:up", "Run broker, store and workers on this machine until Ctrl-C."),
    "publish": Lazy(
        "publish:publish",
        "Publish files, folders and recorded streams as document changes; skip files that are unchanged.",
    ),
    "watch": Lazy(
        "watch:watch_folders",
        "Publish what has changed in folders, then each file created, modified or removed in them, until Ctrl-C.",
    ),
    "git": Lazy("git:publish_git", "Publish the files of a branch, later only the changes of its new commits."),
    "crawl": Lazy(
        "crawl:crawl",
        "Publish pages and files of web sites, and their changes and deletions since the last crawl.",
    ),
    "relay": Lazy(
        "relay:relay",
        "Publish the changes in the topics that freki.toml describes as relays, until SIGTERM or Ctrl-C.",
    ),
    "documents": Lazy("documents:documents_app", "Documents of the index."),
    "delete": Lazy(
        "delete:delete",
        "Delete documents, given by id or by conditions; a condition first shows how many it selects.",
    ),
    "erase": Lazy("erase:erase_app", "Remove all content of documents, with a signed report: `freki erase ID`."),
    "rectify": Lazy(
        "rectify:rectify",
        "Remove the content of versions before the indexed one from topics, claims and dead letters, with a report.",
    ),
    "access": Lazy(
        "access:access",
        "Print all that is stored about documents, one JSON object per line.",
    ),
    "hold": Lazy("hold:hold_app", "Documents that must be kept: erasure and retention wait."),
    "object": Lazy("objection:object_app", "Documents that are kept, but left out of answers."),
    "retention": Lazy(
        "retention:retention_app", "Rules that delete or erase documents after a time: FREKI_RETENTION__RULES."
    ),
    "reindex": Lazy(
        "reindex:reindex",
        "Index documents again with the current settings; versions do not change, and documents stay searchable.",
    ),
    "ask": Lazy("ask:ask", "Ask a question and show what Freki finds."),
    "judge": Lazy("judge:judge_app", "Judgements of answers by users."),
    "groups": Lazy("groups:groups_app", "Groups of users, besides those in their tokens."),
    "audit": Lazy("audit:audit_app", "Audit log: who was given what, and what changed."),
    "keys": Lazy("keys:keys_app", "Keys of the encryption at rest."),
    "limits": Lazy("limits:limits", "Show what each tenant uses of its limits, with changes in flight."),
    "tools": Lazy("tools:describe", "Print the tools as JSON for OpenAI's function calling, strict mode."),
    "mcp": Lazy("tools:serve", "Serve keyword_search, semantic_search and chunk_read over the Model Context Protocol."),
    "serve": Lazy(
        "serve:serve",
        "Serve HTTP and gRPC at FREKI_SERVE__HOST for services, and a page for people (/).",
    ),
    "verify": Lazy(
        "verify:verify",
        "Compare topic and store: documents, versions, content, and each chunk row with its manifest.",
    ),
    "export": Lazy(
        "export_index:export_index",
        "Write the index to files, with vectors and token vectors; continue an interrupted export.",
    ),
    "import": Lazy(
        "import_index:import_index",
        "Write an archive into the index; newer documents and deletions stay. Continue an interrupted import.",
    ),
    "questions": Lazy(
        "evaluate.questions:questions_app",
        "Questions with known answers, proposed from your own documents, for `freki eval`.",
    ),
    "eval": Lazy(
        "evaluate.evaluate:evaluate",
        "Measure retrieval through the whole pipeline, and compare two configurations of its queries.",
    ),
    "tune": Lazy(
        "evaluate.tune:tune",
        "Recommend values of the query options by cross-validation; report gain and latency of each value.",
    ),
    "ablate": Lazy(
        "evaluate.ablate:ablate",
        "Measure the loss in quality and the time saved without each step of retrieval, one at a time.",
    ),
    "status": Lazy(
        "status:status",
        "Show the health of all parts, the lag of the stages, the freshness of the index, and dead letters.",
    ),
    "generations": Lazy(
        "compare_generations:generations_app", "Generations of the index: fill another one, compare, switch."
    ),
    "topics": Lazy("topics:topics_app", "Topics that Freki needs."),
    "models": Lazy("models:models_app", "Models that Freki runs."),
    "schemas": Lazy("schemas:schemas_app", "The contracts of the topics, and of gRPC."),
    "settings": Lazy("settings:settings_app", "Settings: values, their origins, and whether they are valid."),
    "dead-letters": Lazy("dead_letters:letters_app", "Dead letters: records that could not be processed."),
    "worker": Lazy("worker:worker", "Run stages in this process until SIGTERM or Ctrl-C."),
}


def _print_version(asked: bool) -> None:  # noqa: FBT001 - as typer calls it
    if asked:
        typer.echo(f"freki {version('freki')}")
        raise typer.Exit


app = typer.Typer(
    name="freki",
    cls=lazy_group(COMMANDS),
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

    Exit codes: 0 done; 1 failed, or in part; 2 wrong options, settings or paths; 3 nothing found (ask);
    130 interrupted, but 0 for those that run until then: up, worker, serve, mcp --http, relay, watch, any with
    --every, a complete generations create.
    """


def main() -> None:
    """Run the command line."""
    _open_closed_streams()
    _go_on_without_standard_error()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # As on standard error: a locale other than UTF-8 lacks characters of titles, texts and tables.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app()
    except OSError as error:
        # Any command may meet a full disk: also its output may go to one.
        if error.errno not in FULL:
            raise
        where = error.filename or "output or temporary files"
        sys.exit(f"freki: {where}: {error.strerror}; make room, then run the command again")


def _open_closed_streams() -> None:
    """Join standard streams that the caller closed to /dev/null.

    Else Python has None in their place, and the next file or connection gets their number, into which libraries write
    what they log.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # It gets the lowest number that is free: the one of the stream.
            number = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(number, True)  # noqa: FBT003 - takes it by position; processes of `freki up` need it too
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8"))


class _LossyFile(io.FileIO):
    """A file that takes all that is written, and loses what its disk, pipe or terminal does not take."""

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write bytes, and return their number."""
        with suppress(OSError):
            return super().write(data)
        return memoryview(data).nbytes


def _go_on_without_standard_error() -> None:
    """Let no message end what a command does: its reader may have ended, or its disk be full.

    Else each of them would raise: from a log line within a library, or from rich, which then also redirects standard
    output, with the result, to /dev/null.
    """
    # Tests and embedding programs replace it.
    if sys.stderr is sys.__stderr__ and isinstance(sys.stderr, io.TextIOWrapper):
        file = io.BufferedWriter(_LossyFile(sys.stderr.fileno(), "w", closefd=False))
        sys.stderr = io.TextIOWrapper(file, sys.stderr.encoding, sys.stderr.errors, line_buffering=True)
