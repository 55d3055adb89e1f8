"""Encryption at rest in the whole of Freki: what its files hold, what it answers, and keys that rotate meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from freki.infra.kafka import Reader
from freki.infra.keys import make_keys
from freki.infra.local.stack import LocalStack
from freki.infra.local.state import settings_for
from freki.infra.milvus.layout import CHUNKS
from freki.infra.settings import EncryptionSettings, Settings
from freki.schemas import ContextResult, OutcomeStatus
from freki.streams.wire.connect import open_index
from freki.streams.wire.from_settings import topics_of
from freki.streams.wire.provision import apply_topics
from freki.streams.wire.replaying import read_letters
from tests.acceptance.conftest import ONE_WORKER, Children, Freki
from tests.acceptance.helpers import ask, freki_process, publish, upsert

TENANT = "vertraulich"
CHANGING = "wandelbar"
"""The tenant whose document changes: answers of the other one hold nothing of it, in whatever order the tests run."""
SUBJECTS = ("Kleingartenpacht", "Feuerwehrzulage", "Leichenschauhaus", "Wasserschutzzone")
SENTENCES = (
    "Die {0} wird zum Quartalsende fällig, wenn der Verwalter sie bestätigt.",
    "Wer die {0} versäumt, zahlt einen Zuschlag von zwölf Hundertsteln.",
    "Über Ausnahmen von der {0} entscheidet der Magistrat auf Antrag.",
)
UNREADABLE = "Unlesbarer Geheimvermerk über die Kaminkehrerordnung. " * 20


def text_of(subject: str) -> str:
    return f"# Satzung zur {subject}\n\n" + "\n\n".join(sentence.format(subject) for sentence in SENTENCES) * 3


def traces_in(content: bytes, subjects: tuple[str, ...] = SUBJECTS) -> list[str]:
    """Return what of the sentences is there: a run of their words, or a rare word by itself."""
    lower = content.lower()
    needles = [*subjects, "Quartalsende", "Hundertsteln", "Magistrat", "Geheimvermerk", "Kaminkehrerordnung"]
    return [needle for needle in needles if needle.lower().encode() in lower]


def bytes_below(directory: Path) -> bytes:
    return b"\0".join(path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file())


def shown(result: ContextResult) -> list[tuple[str, str, int, int]]:
    return [(hit.document_id, hit.text, hit.start, hit.end) for hit in result.hits]


@dataclass
class Encrypted:
    """A stack with encryption; claims are files from 300 bytes on."""

    freki: Freki
    folder: Path
    variables: Mapping[str, str]
    """What commands need in their environment."""

    @property
    def writer(self) -> Freki:
        small = self.freki.settings.claims.model_copy(update={"inline_bytes": 300})
        return replace(self.freki, settings=self.freki.settings.model_copy(update={"claims": small}))

    async def keys(self, command: str) -> str:
        """Run a command of `freki keys`."""
        code, printed = await freki_process(self.freki, "keys", command, **self.variables)
        assert code == 0, printed
        return printed

    async def letters_raw(self) -> bytes:
        topic = topics_of(self.freki.settings).dead_letters.name
        async with Reader(self.freki.settings.kafka, topic, start="earliest") as reader:
            return b"\0".join(
                [
                    b"\0".join([each.value or b"", *(value for _, value in each.headers)])
                    async for each in reader.until_end()
                ]
            )


@pytest.fixture(scope="module")
async def encrypted(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Encrypted]:
    folder = tmp_path_factory.mktemp("encrypted")
    key_file = folder / "freki.keys"
    make_keys(key_file)
    given = EncryptionSettings(keys="local", key_file=key_file, cache_s=1)
    settings = Settings(local=Settings().local.elsewhere(folder / "state"), encryption=given)
    # Not in the environment of the test: the stack of all tests is to stay plain.
    variables = {
        "FREKI_ENCRYPTION__KEYS": "local",
        "FREKI_ENCRYPTION__KEY_FILE": str(key_file),
        "FREKI_ENCRYPTION__CACHE_S": "1",
    }
    children = Children()

    async def prepare(found: Settings) -> None:
        await apply_topics(found)

    async with LocalStack(
        settings, report=children.report, prepare=prepare, workers=ONE_WORKER, environment=variables
    ) as stack:
        yield Encrypted(Freki(settings_for(settings, stack.state), children), folder / "state", variables)


async def test_no_file_has_a_sentence_and_answers_are_as_without(encrypted: Encrypted, freki: Freki) -> None:
    changes = [upsert(TENANT, f"satzung-{n}.md", text_of(subject)) for n, subject in enumerate(SUBJECTS)]
    first, last = changes[:2], changes[2:]
    await publish(freki, *changes)
    await publish(encrypted.writer, *first)
    questions = [f"Wer entscheidet über Ausnahmen von der {subject}?" for subject in SUBJECTS]

    # A new version of the key between two halves of the documents, and all data keys under it afterwards.
    assert "is the current one" in await encrypted.keys("rotate")
    await asyncio.sleep(1.1)
    await publish(encrypted.writer, *last)
    between = [shown(await ask(encrypted.freki, TENANT, question)) for question in questions]
    assert "g1: " in await encrypted.keys("rewrap")
    printed = await encrypted.keys("show")
    [*older, current] = [line.split() for line in printed.splitlines() if line.startswith("│ ")]
    assert [int(line[-2]) for line in older] == [0] * len(older), printed
    assert int(current[-2]) >= 5, printed

    for question, before in zip(questions, between, strict=True):
        plain = shown(await ask(freki, TENANT, question))
        assert plain
        assert shown(await ask(encrypted.freki, TENANT, question)) == plain
        assert before == plain

    (outcome,) = await publish(encrypted.freki, upsert(TENANT, "kamin.md", UNREADABLE.encode() + b"\xff\xfe"))
    assert outcome.status is OutcomeStatus.REJECTED
    letters = (await read_letters(encrypted.freki.settings)).by_place.values()
    (letter,) = [each for each in letters if each.key == f"{TENANT}/kamin.md".encode()]
    assert UNREADABLE.encode() in (letter.value or b"")
    assert not letter.encrypted
    raw = await encrypted.letters_raw()
    assert raw
    assert not traces_in(raw, ())

    assert list((encrypted.folder / "claims").iterdir())
    content = await asyncio.to_thread(bytes_below, encrypted.folder)
    assert b"satzung-1.md" in content
    assert not traces_in(content)


async def test_a_document_of_the_old_version_is_changed_and_deleted_under_the_new_one(encrypted: Encrypted) -> None:
    await publish(encrypted.writer, upsert(CHANGING, "wandel.md", text_of("Wandelhalle")))
    await encrypted.keys("rotate")
    text = text_of("Wandelhalle") + "\n\nNachtrag: Die Wandelhalle bleibt nachts verschlossen."
    (outcome,) = await publish(encrypted.writer, upsert(CHANGING, "wandel.md", text, version=2))
    assert outcome.status is OutcomeStatus.INDEXED
    hits = shown(await ask(encrypted.freki, CHANGING, "Bleibt die Wandelhalle nachts verschlossen?"))
    assert any("Nachtrag" in text for _, text, _, _ in hits)


async def test_what_was_indexed_before_is_read_and_encrypted_by_the_next_write(tmp_path: Path) -> None:
    make_keys(tmp_path / "freki.keys")
    given = EncryptionSettings(keys="local", key_file=tmp_path / "freki.keys")
    variables = {"FREKI_ENCRYPTION__KEYS": "local", "FREKI_ENCRYPTION__KEY_FILE": str(given.key_file)}
    plain = Settings(local=Settings().local.elsewhere(tmp_path / "state"))
    names = [f"satzung-{number}.md" for number in range(len(SUBJECTS))]
    question = "Wer entscheidet über Ausnahmen von der Feuerwehrzulage?"

    async def prepare(found: Settings) -> None:
        await apply_topics(found)

    async def texts_in_store(settings: Settings) -> str:
        async with open_index(settings) as index:
            return repr(await index._store._query(CHUNKS, 'row_id != ""', ["text", "lexical", "name"], limit=500))

    async with LocalStack(plain, report=lambda _: None, prepare=prepare, workers=ONE_WORKER) as stack:
        freki = Freki(settings_for(plain, stack.state), Children())
        await publish(freki, *(upsert(TENANT, *pair) for pair in zip(names, map(text_of, SUBJECTS), strict=True)))
        before = shown(await ask(freki, TENANT, question))
        assert before
        assert traces_in((await texts_in_store(freki.settings)).encode())

    encrypting = plain.model_copy(update={"encryption": given})
    async with LocalStack(
        encrypting, report=lambda _: None, prepare=prepare, workers=ONE_WORKER, environment=variables
    ) as stack:
        freki = Freki(settings_for(encrypting, stack.state), Children())
        assert shown(await ask(freki, TENANT, question)) == before
        changes = [upsert(TENANT, *pair, version=2) for pair in zip(names, map(text_of, SUBJECTS), strict=True)]
        outcomes = await publish(freki, *changes)
        # Vectors are those of before.
        assert [outcome.embedded for outcome in outcomes] == [0] * len(outcomes)
        assert shown(await ask(freki, TENANT, question)) == before
        assert not traces_in((await texts_in_store(freki.settings)).encode())
