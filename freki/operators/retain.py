"""Which documents are to go by rules of retention, and when."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum

from freki.schemas import TenantId, Timestamp
from freki.schemas.index import Root
from freki.schemas.names import is_known, record


class RetentionAction(StrEnum):
    """What a rule does with a document."""

    DELETE = "DELETE"
    """It leaves the index; its content leaves topics and claims as after any deletion."""
    ERASE = "ERASE"
    """Its content is removed everywhere, with a signed report."""


class RetentionClock(StrEnum):
    """From when a rule counts."""

    PUBLISHED = "PUBLISHED"
    """When the broker stored the version that is indexed; where that is no time, or is ahead, when searchable."""
    OCCURRED = "OCCURRED"
    """When the source changed, as its producer says; a document without that time is never due."""


@record
class RetentionRule:
    """Documents that meet all conditions go after a time; a condition that is left out is met by every document."""

    name: str
    after_ms: int
    """Above 0."""
    since: RetentionClock
    action: RetentionAction
    tenant: TenantId | None = None
    prefix: str = ""
    """Beginning of the document id."""
    source: str = ""
    """Beginning of the source URI."""
    media_type: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)

    def at(self, root: Root, *, by: Timestamp) -> Timestamp | None:
        """Return when a document is due; None: the rule does not mean it, or it has no such time.

        by: a time from which on a record's time is no time.
        """
        counted = _published(root, by) if self.since is RetentionClock.PUBLISHED else root.occurred_at
        is_meant = (
            not root.deleted
            and is_known(counted)
            and self.tenant in (None, root.tenant)
            and root.document_id.startswith(self.prefix)
            and (root.source_uri or "").startswith(self.source)
            and self.media_type in ("", root.media_type)
            and self.attributes.items() <= root.attributes.items()
        )
        return Timestamp(counted + self.after_ms) if is_meant else None


def _published(root: Root, by: Timestamp) -> Timestamp:
    """Return since when a version is published.

    The time of a record may be its producer's (`message.timestamp.type=CreateTime`): none, or one that has not come,
    would keep a document for ever.
    """
    return root.recorded_at if is_known(root.recorded_at) and root.recorded_at <= by else root.searchable_at


@record
class Due:
    """A document that a rule means."""

    root: Root
    rule: RetentionRule
    at: Timestamp
    """When the first rule that is due, or else the next one, is due."""


def due_by(root: Root, rules: Sequence[RetentionRule], *, by: Timestamp) -> Due | None:
    """Return why a document goes by a time, and since when it should; None: it stays.

    Of several rules that are due, one that erases acts, then the one that was due first, then by name.
    """
    return _first(root, ((at, rule) for rule in rules if (at := rule.at(root, by=by)) is not None and at <= by))


def _first(root: Root, found: Iterable[tuple[Timestamp, RetentionRule]]) -> Due | None:
    ranked = sorted(found, key=lambda each: (each[1].action is not RetentionAction.ERASE, each[0], each[1].name))
    return Due(root=root, rule=ranked[0][1], at=min(at for at, _ in ranked)) if ranked else None
