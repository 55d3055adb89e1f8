"""`freki topics`: the topics that Freki needs, and the rights on them."""

from typing import Annotated

import typer
from rich.text import Text

from freki.cli.arguments import not_empty
from freki.cli.context import command, console, fail, load_settings
from freki.cli.rows import AsJson, Rows, whole_table
from freki.infra.kafka.admin import Admin, TopicState
from freki.infra.settings import Settings
from freki.streams.topics import Topic
from freki.streams.wire.acls import acl_lines, rights_of
from freki.streams.wire.from_settings import topics_of
from freki.streams.wire.provision import apply_topics

_BEFORE_ADDING = (
    "read docs/operations.md before you add partitions: a key would have a last record in two of them, and the older"
    " one may outlive a deletion"
)

topics_app = typer.Typer(help="Topics that Freki needs.", no_args_is_help=True)


@topics_app.command("list")
@command
async def topics_list(*, as_json: AsJson = False) -> None:
    """List the topics and their differences from the declaration."""
    settings = load_settings()
    topics = list(topics_of(settings))
    async with Admin(settings.kafka) as admin:
        states = await admin.describe([topic.name for topic in topics])
    numbers = ("partitions", "largest_record")
    rows = Rows("topic", "partitions", "cleanup", "largest_record", "state", as_json=as_json, numbers=numbers)
    for topic, state in zip(topics, states, strict=True):
        rows.add(
            {
                "topic": topic.name,
                "partitions": topic.partitions,
                "cleanup": topic.cleanup,
                "largest_record": topic.max_message_bytes,
                "state": compared(topic, state),
            }
        )
    rows.end(nothing="no topics are declared")


def compared(topic: Topic, state: TopicState) -> str:
    """Return how a topic differs from its declaration, and what to do."""
    if not state.partitions:
        return "missing, or may not be described: `freki topics apply` creates it, `freki topics acls` lists the rights"
    differences = list(state.differences(topic))
    if topic.cleanup == "compact" and state.partitions < topic.partitions:
        differences.append(_BEFORE_ADDING)
    return "; ".join(differences) or "as declared"


@topics_app.command("apply")
@command
async def topics_apply(
    tenant: Annotated[
        list[str] | None,
        typer.Option(
            help="With FREKI_AUTH__REPLY_TOPIC: also the topic of its answers; repeatable", callback=not_empty
        ),
    ] = None,
) -> None:
    """Create the missing topics; existing topics stay unchanged."""
    created = await apply_topics(_with_reply_topics(load_settings(), tenant), tenants=tenant or ())
    console.print("created " + ", ".join(created) if created else "all topics are there")


@topics_app.command("acls")
@command
async def topics_acls(
    part: Annotated[list[str] | None, typer.Argument(help="Stages and commands; default: all")] = None,
    *,
    principal: Annotated[
        str | None,
        typer.Option(
            help="Print kafka-acls.sh lines that grant these rights, as to User:freki-embed", callback=not_empty
        ),
    ] = None,
    command_config: Annotated[
        str | None, typer.Option(help="Properties file with the login of kafka-acls.sh, for these lines")
    ] = None,
    tenant: Annotated[
        list[str] | None,
        typer.Option(
            help="With FREKI_AUTH__REPLY_TOPIC: also for the topic of its answers; repeatable", callback=not_empty
        ),
    ] = None,
) -> None:
    """List the Kafka rights that each part of Freki needs under these settings; no part uses others."""
    settings = _with_reply_topics(load_settings(), tenant)
    rights = rights_of(settings, tenants=tenant or ())
    if unknown := [name for name in part or () if name not in rights]:
        fail(f"there is no part {unknown[0]!r}; choose from {', '.join(rights)}", code=2)
    chosen = {name: rights[name] for name in part or rights}
    if principal is not None:
        for line in acl_lines(chosen.values(), principal, bootstrap=settings.kafka.bootstrap, login=command_config):
            console.print(Text(line), soft_wrap=True)
        return
    table = whole_table("part", "resource", "name", "operations")
    for name, needed in chosen.items():
        for number, right in enumerate(needed):
            table.add_row("" if number else name, right.resource, right.name, ", ".join(right.operations))
    console.print(table)


def _with_reply_topics(settings: Settings, tenants: list[str] | None) -> Settings:
    if tenants and settings.auth.reply_topic is None:
        fail("--tenant: all tenants share a topic for answers; set FREKI_AUTH__REPLY_TOPIC, or leave it out", code=2)
    return settings
