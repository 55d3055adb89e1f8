"""The audit log of a process: its file and its topic agree, whatever fails."""

import asyncio
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from resource import RLIMIT_FSIZE, getrlimit, setrlimit

import pytest

from freki.infra.audit import LeftChain, create_chain, left_chains, read_chains, remove_expired
from freki.infra.signing import SigningKey, make_key, read_verifier
from freki.operators.audit_chain import GENESIS, ChainReport, Event, check_chains, link
from freki.schemas import AuditEntry, AuditKind, TenantId, Timestamp
from freki.schemas.audit_lines import NotAnEntry
from freki.schemas.errors import Misconfigured, Unavailable
from freki.streams.audit.log import WITHHELD, AuditLog, AuditRules, AuditUnwritable, ChainFile, NewFile
from freki.streams.topics import DAY_MS

WRITER = "1700000000000-aa"
RULES = AuditRules(waits_for_topic=False, buffer_bytes=1 << 20, anchor_entries=1000, anchor_s=60.0, rotation_ms=DAY_MS)
PATIENCE_S = 60.0


@dataclass
class Topic:
    """A topic that can be down."""

    entries: list[AuditEntry] = field(default_factory=list)
    is_down: bool = False
    has_bug: bool = False
    called: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, entries: Sequence[AuditEntry]) -> None:
        self.called.set()
        if self.has_bug:
            raise ValueError("no Kafka error")
        if self.is_down:
            # Some of them may be stored, as with a broker that dies while it answers.
            self.entries += entries[: len(entries) // 2]
            raise Unavailable("down")
        self.entries += entries

    async def until(self, happened: Callable[[], bool]) -> None:
        while not happened():
            self.called.clear()
            await self.called.wait()


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    return make_key(tmp_path / "keys" / "audit.key")


def log(
    directory: Path,
    topic: Topic,
    key: SigningKey,
    *,
    waits: bool = True,
    writer: str = WRITER,
    anchor_entries: int = 1000,
    buffer_bytes: int = 1 << 20,
) -> AuditLog:
    rules = replace(RULES, waits_for_topic=waits, buffer_bytes=buffer_bytes, anchor_entries=anchor_entries)
    return log_in(lambda: create_chain(directory, writer), topic, key, rules=rules)


def log_in(
    new_file: NewFile,
    topic: Topic,
    key: SigningKey,
    *,
    rules: AuditRules = RULES,
    now: Callable[[], Timestamp] = lambda: Timestamp(5),
) -> AuditLog:
    opened = Event(kind=AuditKind.OPENED)
    return AuditLog(new_file, topic.send, signer=key, rules=rules, now=now, opened=opened)


def asked(number: int) -> Event:
    return Event(kind=AuditKind.ASKED, tenant=TenantId("amt"), asker="ada", subject=f"query-{number}")


def in_file(directory: Path) -> list[AuditEntry]:
    return [entry for _, entry in read_chains([directory]) if isinstance(entry, AuditEntry)]


def checked(entries: Sequence[AuditEntry], key: SigningKey) -> ChainReport:
    (report,) = check_chains(entries, verify=key.verify)
    return report


async def test_file_and_topic_have_the_same_whole_chain(tmp_path: Path, key: SigningKey) -> None:
    topic = Topic()

    async with log(tmp_path / "log", topic, key, anchor_entries=10) as audit:
        await asyncio.gather(*(audit.record(asked(number)) for number in range(25)))

    assert in_file(tmp_path / "log") == topic.entries
    assert [entry.kind for entry in topic.entries][0::28] == [AuditKind.OPENED, AuditKind.CLOSED]
    report = checked(topic.entries, key)
    assert (report.faults, report.is_closed, report.anchors) == ((), True, 3)
    assert {entry.subject for entry in topic.entries} >= {f"query-{number}" for number in range(25)}


async def test_without_its_topic_a_log_that_waits_for_it_refuses_and_says_what_was_withheld(
    tmp_path: Path, key: SigningKey
) -> None:
    topic = Topic()
    async with log(tmp_path / "log", topic, key) as audit:
        topic.is_down = True
        with pytest.raises(AuditUnwritable):
            await audit.record(asked(1))
        with pytest.raises(AuditUnwritable, match="takes no entries"):
            await audit.record(asked(2))
        topic.is_down = False
        await topic.until(lambda: any(entry.reason == WITHHELD for entry in topic.entries))
        await audit.record(asked(3))

    assert checked(topic.entries, key).faults == ()
    said = [(entry.kind, entry.subject) for entry in in_file(tmp_path / "log")[1:-1]]
    assert said == [(AuditKind.ASKED, "query-1"), (AuditKind.REFUSED, "query-1"), (AuditKind.ASKED, "query-3")]
    assert in_file(tmp_path / "log") == list({entry.sequence: entry for entry in topic.entries}.values())


def test_entries_that_the_disk_takes_in_part_are_not_written(tmp_path: Path) -> None:
    chain = create_chain(tmp_path, WRITER)
    first, second = (
        link(asked(number), writer=WRITER, sequence=number, previous=GENESIS, at=Timestamp(5)) for number in range(2)
    )
    size = chain.append([first])
    limits = getrlimit(RLIMIT_FSIZE)
    # Within the second entry: Linux writes up to there, and says so by a number only.
    setrlimit(RLIMIT_FSIZE, (size + 10, limits[1]))
    try:
        with pytest.raises(Unavailable, match="cannot be written: File too large"):
            chain.append([second])
    finally:
        setrlimit(RLIMIT_FSIZE, limits)
    chain.append([second])
    chain.close()

    assert in_file(tmp_path) == [first, second]


async def test_starts_that_a_full_disk_refuses_leave_no_files(tmp_path: Path, key: SigningKey) -> None:
    limits = getrlimit(RLIMIT_FSIZE)
    refused = log(tmp_path / "log", Topic(), key)
    setrlimit(RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(AuditUnwritable, match="cannot be written: File too large"):
            await refused.__aenter__()
    finally:
        setrlimit(RLIMIT_FSIZE, limits)

    assert list((tmp_path / "log").iterdir()) == []


async def test_a_log_with_a_buffer_goes_on_without_its_topic_until_the_buffer_is_full(
    tmp_path: Path, key: SigningKey
) -> None:
    topic = Topic(is_down=True)
    async with log(tmp_path / "log", topic, key, waits=False, buffer_bytes=1500) as audit:
        for number in range(3):
            await audit.record(asked(number))
        with pytest.raises(AuditUnwritable, match="BUFFER_MB"):
            await audit.record(asked(3))
        written = len(in_file(tmp_path / "log"))
        topic.is_down = False
        await topic.until(lambda: {entry.sequence for entry in topic.entries} == set(range(written)))
        await audit.record(asked(10))

    assert written == 4
    assert checked(topic.entries, key).faults == ()
    assert {entry.sequence for entry in topic.entries} == {entry.sequence for entry in in_file(tmp_path / "log")}


class Rotating:
    """A log whose clock the test sets, and whose files it may refuse."""

    def __init__(self, directory: Path, topic: Topic, key: SigningKey, *, anchor_s: float = 60.0) -> None:
        self.now = Timestamp(5)
        self.is_refused = False
        self._directory = directory
        self._writers = iter(f"{number}-aa" for number in range(10))
        rules = replace(RULES, anchor_s=anchor_s)
        self.log = log_in(self._new_file, topic, key, rules=rules, now=lambda: self.now)

    def _new_file(self) -> ChainFile:
        if self.is_refused:
            raise Misconfigured("no space left on device")
        return create_chain(self._directory, next(self._writers))


def files(directory: Path) -> list[list[str]]:
    """Return what the entries of each file say."""
    chains = [read_chains([path]) for path in sorted(directory.glob("*.jsonl"))]
    entries = [[entry for _, entry in found if isinstance(entry, AuditEntry)] for found in chains]
    return [[entry.subject or entry.kind for entry in found] for found in entries]


async def test_a_process_that_runs_for_long_begins_files_so_that_those_past_their_retention_can_be_removed(
    tmp_path: Path, key: SigningKey
) -> None:
    topic = Topic()
    rotating = Rotating(tmp_path, topic, key)
    async with rotating.log as audit:
        await audit.record(asked(1))
        rotating.now = Timestamp(5 + DAY_MS)
        await audit.record(asked(2))
        await topic.until(lambda: any(entry.subject == "query-2" for entry in topic.entries))
        rotating.now = Timestamp(10 + DAY_MS)
        await audit.record(asked(3))
        whole = files(tmp_path)
        reports = check_chains(topic.entries, verify=key.verify)
        removed = remove_expired(tmp_path, rotating.now)

    assert whole == [["OPENED", "query-1", "CLOSED"], ["OPENED", "query-2", "query-3"]]
    assert [(report.faults, report.is_closed) for report in reports] == [((), True), ((), False)]
    (_, opened) = (entry for entry in topic.entries if entry.kind is AuditKind.OPENED)
    (first,) = (entry for entry in topic.entries if entry.writer == "0-aa" and entry.kind is AuditKind.CLOSED)
    assert [(end.writer, end.sequence, end.hash) for end in opened.continues] == [("0-aa", 2, first.hash)]
    assert (removed, files(tmp_path)) == (1, [["OPENED", "query-2", "query-3", "CLOSED"]])
    left = [entry for _, entry in read_chains([tmp_path]) if isinstance(entry, AuditEntry)]
    assert [report.faults for report in check_chains(left, verify=key.verify, kept_since=rotating.now)] == [(), ()]


async def test_a_clock_that_was_ahead_when_a_file_began_does_not_keep_it_until_then(
    tmp_path: Path, key: SigningKey
) -> None:
    rotating = Rotating(tmp_path, Topic(), key)
    rotating.now = Timestamp(400 * DAY_MS)
    async with rotating.log as audit:
        for now in (5, DAY_MS, 5 + DAY_MS):
            rotating.now = Timestamp(now)
            await audit.record(asked(now))

    assert files(tmp_path) == [
        ["OPENED", "query-5", f"query-{DAY_MS}", "CLOSED"],
        ["OPENED", f"query-{5 + DAY_MS}", "CLOSED"],
    ]


async def test_a_process_without_anything_to_record_begins_files_too(tmp_path: Path, key: SigningKey) -> None:
    topic = Topic()
    rotating = Rotating(tmp_path, topic, key, anchor_s=0.01)
    async with rotating.log:
        rotating.now = Timestamp(5 + DAY_MS)
        await topic.until(lambda: any(entry.writer == "1-aa" for entry in topic.entries))

    assert [kinds[0] for kinds in files(tmp_path)] == ["OPENED", "OPENED"]


async def test_where_no_other_file_can_be_begun_the_log_goes_on_in_its_own(tmp_path: Path, key: SigningKey) -> None:
    topic = Topic()
    rotating = Rotating(tmp_path, topic, key)
    async with rotating.log as audit:
        rotating.is_refused, rotating.now = True, Timestamp(5 + DAY_MS)
        await audit.record(asked(1))
        rotating.is_refused = False
        await audit.record(asked(2))
        rotating.now = Timestamp(5 + DAY_MS + 60_000)
        await audit.record(asked(3))

    assert files(tmp_path) == [["OPENED", "query-1", "query-2", "CLOSED"], ["OPENED", "query-3", "CLOSED"]]


async def test_a_topic_that_is_down_while_files_change_gets_the_entries_of_all_of_them(
    tmp_path: Path, key: SigningKey
) -> None:
    topic = Topic()
    rotating = Rotating(tmp_path, topic, key)
    async with rotating.log as audit:
        topic.is_down = True
        for day in range(3):
            rotating.now = Timestamp(5 + day * DAY_MS)
            await audit.record(asked(day))
        assert list(left_chains(tmp_path)) == [], "nobody else sends them meanwhile"
        topic.is_down = False
        await topic.until(lambda: {"query-0", "query-1", "query-2"} <= {entry.subject for entry in topic.entries})

    assert len(files(tmp_path)) == 3
    sent = {(entry.writer, entry.sequence) for entry in topic.entries}
    assert sent == {(entry.writer, entry.sequence) for entry in in_file(tmp_path)}
    assert [report.faults for report in check_chains(topic.entries, verify=key.verify)] == [(), (), ()]
    assert list(left_chains(tmp_path)) == []


async def test_without_its_file_every_log_refuses(key: SigningKey) -> None:
    class FullDisk:
        writer = WRITER

        def append(self, _entries: Sequence[AuditEntry]) -> int:
            raise Unavailable("no space left on device")

        def mark_sent(self, sequence: int) -> None: ...

        def close(self) -> None: ...

    audit = log_in(FullDisk, Topic(), key)

    with pytest.raises(AuditUnwritable, match="no space left"):
        await audit.__aenter__()


@pytest.mark.parametrize("torn", [b"", b'{"asker":"ada","at"'])
async def test_what_a_dead_process_left_is_found_whole_with_all_that_its_topic_lacks(
    tmp_path: Path, key: SigningKey, torn: bytes
) -> None:
    topic = Topic()
    audit = log(tmp_path / "log", topic, key, waits=False)
    await audit.__aenter__()
    await audit.record(asked(1))
    await topic.until(lambda: len(topic.entries) == 2)
    assert list(left_chains(tmp_path / "log")) == []  # its process lives
    topic.is_down = True
    await audit.record(asked(2), asked(3))
    await audit._stop()
    (path,) = (tmp_path / "log").glob("*.jsonl")
    with path.open("ab") as file:
        file.write(torn)

    (left,) = left_chains(tmp_path / "log")

    assert [entry.subject for entry in left.unsent] == ["query-2", "query-3"]
    assert left.last.subject == "query-3"
    assert path.read_bytes().endswith(b"}\n")
    left.file.close()


async def test_a_log_that_stops_while_it_sends_sends_every_entry_once(tmp_path: Path, key: SigningKey) -> None:
    answers = asyncio.Event()

    class SlowTopic(Topic):
        async def send(self, entries: Sequence[AuditEntry]) -> None:
            await super().send(entries)
            await answers.wait()

    topic = SlowTopic()
    audit = log(tmp_path / "log", topic, key, waits=False)
    await audit.__aenter__()
    await topic.until(lambda: bool(topic.entries))
    await audit.record(asked(1))
    left = asyncio.create_task(audit.__aexit__(None, None, None))
    await asyncio.sleep(0.05)  # whatever would be sent twice is under way now
    answers.set()
    await left

    assert topic.entries == in_file(tmp_path / "log")
    assert list(left_chains(tmp_path / "log")) == []


async def test_only_what_is_old_and_whole_is_removed(tmp_path: Path, key: SigningKey) -> None:
    topic = Topic()
    async with log(tmp_path / "log", topic, key):
        assert remove_expired(tmp_path / "log", Timestamp(6)) == 0

    assert remove_expired(tmp_path / "log", Timestamp(5)) == 0
    assert remove_expired(tmp_path / "log", Timestamp(6)) == 1
    assert list((tmp_path / "log").iterdir()) == []


async def test_a_damaged_file_is_left_for_who_verifies_it(tmp_path: Path, key: SigningKey) -> None:
    topic = Topic()
    async with log(tmp_path / "log", topic, key) as audit:
        await audit.record(asked(1))
    (path,) = (tmp_path / "log").glob("*.jsonl")
    path.write_bytes(path.read_bytes() + b"nonsense\n")

    left: list[LeftChain] = list(left_chains(tmp_path / "log"))

    assert left == []
    assert isinstance([entry for _, entry in read_chains([path])][-1], NotAnEntry)


def test_a_key_is_for_its_owner_and_its_public_half_verifies(tmp_path: Path) -> None:
    path = tmp_path / "audit.key"
    key = make_key(path)
    public = tmp_path / "audit.pub"
    public.write_text(key.public_pem)
    other = tmp_path / "other.pub"
    other.write_text(make_key(tmp_path / "other.key").public_pem)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    signature = SigningKey.read(path).sign(b"x")
    assert read_verifier([other, public])(b"x", signature)
    assert not read_verifier([public])(b"y", signature)
    assert not read_verifier([other])(b"x", signature)
    assert not read_verifier([public])(b"x", "nonsense")
    assert SigningKey.read(path).hash_text("Was?") == key.hash_text("Was?") != key.hash_text("Wer?")
    with pytest.raises(Misconfigured, match="exists"):
        make_key(path)
    path.chmod(0o640)
    with pytest.raises(Misconfigured, match="chmod 600"):
        SigningKey.read(path)
    with pytest.raises(Misconfigured, match="PEM"):
        SigningKey.read(_owned(public))


def _owned(path: Path) -> Path:
    path.chmod(0o600)
    return path


async def test_an_error_that_nobody_expects_of_the_topic_is_an_outage(
    tmp_path: Path, key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("freki.streams.audit.log.RETRY_S", 0.01)
    topic = Topic()

    async with log(tmp_path, topic, key) as audit:
        topic.has_bug = True
        with pytest.raises(AuditUnwritable, match="no Kafka error"):
            await asyncio.wait_for(audit.record(asked(1)), PATIENCE_S)
        topic.has_bug = False
        await asyncio.wait_for(topic.until(lambda: len(topic.entries) > 1), PATIENCE_S)

    assert checked(topic.entries, key).faults == ()
    assert topic.entries == in_file(tmp_path)


async def test_after_an_error_that_nobody_expects_of_the_file_nothing_is_written_and_nobody_waits(
    tmp_path: Path, key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = Topic()

    async with log(tmp_path, topic, key) as audit:
        with monkeypatch.context() as patched:
            patched.setattr("freki.infra.audit.files.ChainFile.append", lambda *_: 1 // 0)
            with pytest.raises(AuditUnwritable, match="ZeroDivisionError"):
                await asyncio.wait_for(audit.record(asked(1)), PATIENCE_S)
        with pytest.raises(AuditUnwritable, match="restart the process"):
            await asyncio.wait_for(audit.record(asked(2)), PATIENCE_S)

    assert [each.kind for each in in_file(tmp_path)] == [AuditKind.OPENED]
