"""Compares the store with what was published, through pymilvus alone: no code of Freki reads the rows."""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pymilvus import MilvusClient

from tests.chaos.books import WORD, State

PAGE_ROWS = 1000
SHOWN_WORDS = 5

Row = dict[str, Any]


@dataclass(slots=True)
class Contents:
    """All rows of a generation."""

    documents: list[Row]
    manifests: list[Row]
    chunks: list[Row]


@dataclass(slots=True)
class Found:
    """What is not as it should be."""

    differences: list[str] = field(default_factory=list)
    left_behind: dict[str, list[str]] = field(default_factory=dict)
    """Keys of rows that no live manifest names, by document: nobody sees them, and the next sweep removes them."""
    live: int = 0
    deleted: int = 0
    rows: int = 0


def read(uri: str, generation: str = "g1") -> Contents:
    """Read the collections of a generation."""
    client = MilvusClient(uri=uri)
    try:
        return Contents(
            documents=_all(client, f"freki_{generation}_documents", "id", ["id", "key", "record", "body"]),
            manifests=_all(
                client, f"freki_{generation}_manifests", "id", ["id", "root_id", "is_mark", "row_ids", "version"]
            ),
            chunks=_all(
                client,
                f"freki_{generation}_chunks",
                "row_id",
                ["row_id", "root_id", "tenant", "document_id", "text", "principals", "version"],
            ),
        )
    finally:
        client.close()


def compare(contents: Contents, published: Mapping[str, Sequence[State]], tenant: str) -> Found:
    """List the differences between the rows and the newest published states."""
    found = Found(rows=len(contents.chunks))
    roots: defaultdict[str, list[Row]] = defaultdict(list)
    for row in contents.documents:
        if row["record"] == "root":
            roots[row["body"]["document_id"]].append(row)
    for name, commits in roots.items():
        if commits[0]["body"]["tenant"] != tenant or name not in published:
            found.differences.append(f"{name}: was never published")
    pages = {row["id"]: row for row in contents.manifests if not row["is_mark"]}
    chunks = {row["row_id"]: row for row in contents.chunks}
    used: set[str] = set()
    for name, states in published.items():
        newest, root = states[-1], _standing(roots[name])
        if newest.content is None:
            found.deleted += 1
            if root is not None:
                found.differences.append(f"{name}: deleted as version {newest.version}, live as {root['version']}")
        elif root is None:
            found.differences.append(f"{name}: version {newest.version} is published, none is live")
        else:
            found.live += 1
            document = _Document(root, _page_ids(root), pages, chunks)
            found.differences += [f"{name}: {each}" for each in document.differences(newest)]
            used |= {*document.page_ids, *document.named}
    found.left_behind = _left_behind(contents, roots, used)
    return found


def _page_ids(root: Row) -> list[str]:
    """Name the pages of a root, which lists them as runs: attempts, and how many parts in a row each wrote."""
    attempts = [attempt for attempt, count in root["pages"] for _ in range(count)]
    return [f"{root['root_id']}:{root['version']}:{part}:{attempt}" for part, attempt in enumerate(attempts)]


@dataclass(slots=True)
class _Document:
    """A live document: its root, the pages of its manifest, and the rows that these name."""

    root: Row
    page_ids: Sequence[str]
    pages: Mapping[str, Row]
    chunks: Mapping[str, Row]

    @property
    def named(self) -> list[str]:
        """Keys of the rows in the manifest."""
        return [row for page in self.page_ids if page in self.pages for row in self.pages[page]["row_ids"]]

    def differences(self, newest: State) -> Iterator[str]:
        """List what is not as it was published."""
        yield from self._of_root(newest)
        lost = [
            *(page for page in self.page_ids if page not in self.pages),
            *(row for row in self.named if row not in self.chunks),
        ]
        if lost:
            yield f"{lost} of its manifest are lost"
        elif len(self.named) != self.root["chunks"]:
            yield f"its root counts {self.root['chunks']} chunks, its manifest names {len(self.named)}"
        rows = [self.chunks[row] for row in self.named if row in self.chunks]
        for row in rows:
            if (row["root_id"], row["tenant"]) != (self.root["root_id"], self.root["tenant"]):
                yield f"its manifest names row {row['row_id']} of {row['document_id']}"
            if set(row["principals"]) != set(self.root["principals"]):
                yield f"row {row['row_id']} may be read by {row['principals']}, it by {self.root['principals']}"
        if self.root["version"] == newest.version:
            yield from self._of_texts(newest, rows)

    def _of_root(self, newest: State) -> Iterator[str]:
        if self.root["version"] != newest.version:
            yield f"version {newest.version} is published, {self.root['version']} is live"
        elif self.root["content_hash"] != hashlib.sha256((newest.content or "").encode()).hexdigest():
            yield f"version {newest.version} has another content hash"
        elif tuple(self.root["principals"]) != newest.principals:
            yield f"may be read by {self.root['principals']}, published for {newest.principals}"

    def _of_texts(self, newest: State, rows: Sequence[Row]) -> Iterator[str]:
        for row in rows:
            if not newest.holds(row["text"]):
                yield f"version {newest.version} never held the text {row['text'][:80]!r} of row {row['row_id']}"
        if newest.is_synthetic:
            held = {word for row in rows for word in WORD.findall(row["text"])}
            missing = [word for word in dict.fromkeys(WORD.findall(newest.words)) if word not in held]
            if missing:
                yield f"{len(missing)} words of version {newest.version} stand in no row: {missing[:SHOWN_WORDS]}"


def _left_behind(contents: Contents, roots: Mapping[str, Sequence[Row]], used: Collection[str]) -> dict[str, list[str]]:
    """List by document the rows and pages that no live manifest names, and the roots below the highest."""
    names: dict[str, str] = {commits[0]["key"]: name for name, commits in roots.items() if commits}
    left: defaultdict[str, list[str]] = defaultdict(list)
    for rows, key in ((contents.chunks, "row_id"), (contents.manifests, "id")):
        for row in rows:
            # The mark of a page lives and dies with it.
            if row[key].removesuffix(":checked") not in used:
                left[names.get(row["root_id"]) or row["root_id"]].append(row[key])
    for name, commits in roots.items():
        if commits:
            highest = max(commits, key=_rank)
            # One that carries a later tombstone stays.
            kept = highest["body"]["tombstoned_at"]
            lower = [row["id"] for row in commits if row is not highest and row["body"]["tombstoned_at"] <= kept]
            if lower:
                left[name] += lower
    return dict(left)


def _standing(commits: Sequence[Row]) -> Row | None:
    """Give the root that is live: that of the highest rank, unless it is deleted or older than a tombstone."""
    if not commits:
        return None
    highest: Row = max(commits, key=_rank)["body"]
    tombstoned_at = max(commit["body"]["tombstoned_at"] for commit in commits)
    return None if highest["deleted"] or highest["recorded_at"] < tombstoned_at else highest


def _rank(commit: Row) -> tuple[int, bool, int, str]:
    body = commit["body"]
    return body["version"], body["deleted"], body["edition"], body["attempt"]


def _all(client: MilvusClient, collection: str, key: str, fields: list[str]) -> list[Row]:
    rows: list[Row] = []
    pages = client.query_iterator(
        collection, batch_size=PAGE_ROWS, filter=f'{key} != ""', output_fields=fields, consistency_level="Strong"
    )
    try:
        while page := pages.next():
            rows += page
    finally:
        pages.close()
    return rows
