"""The commands as people type them, against a running stack."""

import asyncio
import json
import os
import re
import secrets
import shutil
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters, stdio_client

from freki.infra.kafka import KafkaProducer
from freki.streams.wire.from_settings import topics_of
from tests.acceptance.conftest import Freki
from tests.acceptance.helpers import environment, freki_command, freki_process
from tests.unit.repositories import Repository
from tests.web_site import serving


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture(autouse=True)
def tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test documents of its own."""
    monkeypatch.setenv("FREKI_TENANT", f"cli-{secrets.token_hex(4)}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    # A name of its own: documents are named after their folder.
    home = tmp_path / f"handbuch-{secrets.token_hex(4)}"
    home.mkdir()
    (home / "urlaub.md").write_text("# Urlaub\n\nDer Urlaub ist bei der Leitung zu beantragen.\n", encoding="utf-8")
    (home / "reise.md").write_text("# Dienstreisen\n\nDie Bahnfahrt wird erstattet.\n", encoding="utf-8")
    return home


async def test_a_folder_is_published_asked_and_pruned(freki: Freki, folder: Path) -> None:
    published = await freki_process(freki, "publish", str(folder), "--wait")
    again = await freki_process(freki, "publish", str(folder), "--wait")
    found = await freki_process(freki, "ask", "Wer entscheidet über den Urlaub?")
    (folder / "urlaub.md").unlink()
    pruned = await freki_process(freki, "publish", str(folder), "--prune", "--wait")
    after = await freki_process(freki, "ask", "Wer entscheidet über den Urlaub?")

    assert published[0] == 0
    assert "2 indexed" in published[1]
    assert (again[0], "2 unchanged and not published" in again[1], "outcomes" in again[1]) == (0, True, False)
    assert f"{folder.name}/urlaub.md" in found[1]
    assert "[QUELLE-1: urlaub.md" in found[1]
    assert "1 deleted" in pruned[1]
    assert f"{folder.name}/urlaub.md" not in after[1]


async def test_of_a_stream_without_changes_it_is_said_that_nothing_was_published(freki: Freki, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()

    code, output = await freki_command(freki, "publish", str(tmp_path / "empty.jsonl"), "--wait")

    assert (code, "Published 0 changes." in output) == (0, True)


async def test_an_empty_folder_is_pruned_only_if_that_is_allowed(freki: Freki, folder: Path) -> None:
    for number in range(10):
        (folder / f"{number}.md").write_text(
            f"# Raum {number}\n\nDer Raum hat die Nummer {number}.\n", encoding="utf-8"
        )
    await freki_command(freki, "publish", str(folder), "--wait")
    for name in ("urlaub", "reise", *range(10)):
        (folder / f"{name}.md").unlink()
    (folder / "neu.md").write_text("# Neu\n\nDie Kantine ist neu.\n", encoding="utf-8")

    held = await freki_command(freki, "publish", str(folder), "--prune", "--wait")
    listed = await freki_command(freki, "documents", "list", "--prefix", folder.name)
    pruned = await freki_command(freki, "publish", str(folder), "--prune", "--delete-most", "--wait")

    assert held[0] == 1, held
    assert f"12 of 12 documents of {folder} seem to be gone" in held[1]
    assert "1 indexed" in held[1]
    assert len(set(re.findall(rf"{folder.name}/\w+\.md", listed[1]))) == 13, listed
    assert (pruned[0], "12 deleted" in pruned[1]) == (0, True), pruned


async def test_a_context_is_written_as_it_is(freki: Freki, folder: Path) -> None:
    text = "Der Kartenschlüssel [bold] lautet :smile: und\tsteht " + "sehr " * 40 + "lang in einer Zeile."
    (folder / "karte.md").write_text(text, encoding="utf-8")
    await freki_command(freki, "publish", str(folder), "--wait")

    code, printed = await freki_process(freki, "ask", "Wie lautet der Kartenschlüssel?", "--context", COLUMNS="40")

    assert (code, text in printed) == (0, True), printed


async def test_a_file_that_is_published_alone_is_the_document_of_its_folder(freki: Freki, folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "rad.md").write_text("# Fahrrad\n\nDer Fahrradkeller ist offen.\n", encoding="utf-8")
    await freki_command(freki, "publish", str(folder), "--wait")
    for path, text in (("urlaub.md", "# Urlaub\n\nDen Urlaub gibt das Amt.\n"), ("sub/rad.md", "# Rad\n\nZu.\n")):
        (folder / path).write_text(text, encoding="utf-8")
        code, printed = await freki_command(freki, "publish", str(folder / path), "--wait")
        assert (code, "1 changed" in printed, "1 indexed" in printed) == (0, True, True), printed

    _, answer = await freki_command(freki, "ask", "Urlaub Leitung Fahrradkeller", "--json")

    texts = {hit["document_id"]: hit["text"] for hit in json.loads(answer)["hits"]}
    assert set(texts) <= {f"{folder.name}/{path}" for path in ("urlaub.md", "reise.md", "sub/rad.md")}
    assert not any("Leitung" in text or "Fahrradkeller" in text for text in texts.values())


async def test_folders_of_one_name_do_not_overwrite_each_other(freki: Freki, tmp_path: Path) -> None:
    name = f"doku-{secrets.token_hex(4)}"
    folders = [tmp_path / place / name for place in "ab"]
    for home, text in zip(folders, ("Die Kantine öffnet um elf Uhr.", "Das Lager schließt um vier."), strict=True):
        home.mkdir(parents=True)
        (home / "zeiten.md").write_text(f"# Zeiten\n\n{text}\n", encoding="utf-8")
    first, second = folders
    assert (await freki_command(freki, "publish", str(first), "--wait"))[0] == 0

    refused = await freki_command(freki, "publish", str(second), "--prune", "--wait")
    _, kept = await freki_command(freki, "ask", "Wann öffnet die Kantine?")
    named = await freki_command(freki, "publish", str(second), "--name", f"{name}-b", "--wait")
    shutil.rmtree(first)
    gone = await freki_command(freki, "publish", str(second), "--root", str(second), "--name", name, "--wait")

    assert refused[0] == 1
    assert f"{second.as_uri()}/zeiten.md cannot be document {name}/zeiten.md" in refused[1]
    assert f"belongs to {first.as_uri()}/zeiten.md: choose another --name" in refused[1]
    assert "um elf Uhr" in kept
    assert (named[0], "1 indexed" in named[1]) == (0, True), named
    # It takes the id of a file that is gone, and leaves its own.
    assert (gone[0], "1 indexed" in gone[1], "1 deleted" in gone[1]) == (0, True, True), gone


async def test_metadata_are_given_by_options_and_their_change_is_published(freki: Freki, folder: Path) -> None:
    file = str(folder / "urlaub.md")
    options = ("--attribute", "team=hr", "--attribute", "year=2026", "--language", "en", "--title", "Leave")

    first = await freki_command(freki, "publish", file, *options, "--wait")
    found = await freki_command(
        freki,
        "ask",
        "Urlaub",
        "--filter",
        "attribute.year >= 2026 AND NOT attribute.team IN (it)",
        "--filter",
        "language=en",
    )
    again = await freki_command(freki, "publish", file, *options, "--wait")
    fewer = await freki_command(freki, "publish", file, *options[2:], "--wait")
    none = await freki_command(freki, "ask", "Urlaub", "--filter", "attributes.team=hr", "--json")
    forced = await freki_command(freki, "publish", file, *options[2:], "--force", "--wait")

    assert (first[0], "1 indexed" in first[1]) == (0, True), first
    assert "[QUELLE-1: Leave" in found[1] or "[SOURCE-1: Leave" in found[1], found[1]
    assert "1 unchanged and not published" in again[1]
    assert "1 changed" in fewer[1]
    assert ", 0 embedded" in fewer[1]
    assert json.loads(none[1])["hits"] == []
    assert ("1 published again" in forced[1], ", 0 embedded" in forced[1]) == (True, True), forced


async def test_a_stream_with_counters_as_versions_shows_no_age_and_a_version_twice_has_two_receipts(
    freki: Freki, tmp_path: Path
) -> None:
    line = {"op": "upsert", "document_id": "a", "version": 7, "content": "Der Bahnhof liegt im Norden."}
    (tmp_path / "s.jsonl").write_text(f"{json.dumps(line)}\n" * 2, encoding="utf-8")

    code, printed = await freki_command(freki, "publish", str(tmp_path / "s.jsonl"), "--wait")
    _, shown = await freki_command(freki, "ask", "Wo liegt der Bahnhof?", "--verbose")

    assert (code, "2 receipts: 1 indexed, 1 unchanged" in printed) == (0, True), printed
    assert "version 7" in shown, shown
    assert " old" not in shown


async def test_files_are_published_also_if_the_index_does_not_answer(freki: Freki, folder: Path) -> None:
    await freki_command(freki, "publish", str(folder), "--wait")
    nowhere = {"FREKI_MILVUS__URI": "http://127.0.0.1:1", "FREKI_MILVUS__TIMEOUT_S": "1"}

    code, printed = await freki_process(freki, "publish", str(folder), "--wait", **nowhere)

    assert "the index does not answer" in printed
    assert (code, "2 published again" in printed, "2 unchanged" in printed) == (0, True, True), printed


async def test_a_file_that_is_too_large_is_named_and_the_others_are_published(freki: Freki, folder: Path) -> None:
    (folder / "huge.txt").touch()
    os.truncate(folder / "huge.txt", 100_000_000)

    code, printed = await freki_command(freki, "publish", str(folder), "--wait")

    assert code == 1
    assert "FREKI_CLAIMS__MAX_BYTES" in printed.replace("\n", "")
    assert "2 receipts" in printed


async def test_verify_finds_no_difference(freki: Freki, folder: Path) -> None:
    await freki_command(freki, "publish", str(folder), "--wait")
    async with KafkaProducer(freki.settings.kafka) as producer:
        # Of another program.
        await (await producer.send(topics_of(freki.settings).outcomes.name, key=b"k", value=b"garbage"))

    code, printed = await freki_process(freki, "verify")

    assert (code, "0 differences" in printed) == (0, True), printed


async def test_a_tenant_is_exported_and_imported_into_another_generation(
    freki: Freki, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant, archive = os.environ["FREKI_TENANT"], str(tmp_path / "archive")
    await freki_command(freki, "publish", str(folder), "--wait")

    exported = await freki_process(freki, "export", archive, "--tenant", tenant)
    generation = f"moved{secrets.token_hex(4)}"
    monkeypatch.setenv("FREKI_MILVUS__GENERATION", generation)
    imported = await freki_process(freki, "import", archive)
    again = await freki_command(freki, "import", archive, "--json")
    monkeypatch.delenv("FREKI_MILVUS__GENERATION")
    dropped = await freki_command(freki, "generations", "drop", generation, "--yes")

    assert (exported[0], "exported 2 documents (0 deletions)" in exported[1]) == (0, True), exported[1]
    assert "imported 2 documents (0 deletions)" in imported[1]
    summary = json.loads(again[1][again[1].index("{") :])
    assert (summary["documents"], summary["present"]) == (0, 2)
    assert (dropped[0], f"removed {generation}" in dropped[1]) == (0, True), dropped[1]


async def test_a_document_deleted_after_the_export_does_not_come_back_into_an_empty_index(
    freki: Freki, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, generation = str(tmp_path / "archive"), f"restored{secrets.token_hex(4)}"
    await freki_command(freki, "publish", str(folder), "--wait")
    await freki_command(freki, "export", archive, "--tenant", os.environ["FREKI_TENANT"])
    deleted = json.loads((await freki_command(freki, "documents", "list", "--json"))[1].splitlines()[0])
    await freki_command(freki, "delete", deleted["document_id"], "--yes", "--wait")

    monkeypatch.setenv("FREKI_MILVUS__GENERATION", generation)
    code, printed = await freki_command(freki, "import", archive)
    _, listed = await freki_command(freki, "documents", "list", "--json")
    monkeypatch.delenv("FREKI_MILVUS__GENERATION")
    await freki_command(freki, "generations", "drop", generation, "--yes")

    assert (code, "imported 1 document (0 deletions)" in printed) == (0, True), printed
    assert "left out, because the stream deleted them: 1 document" in printed
    assert (listed.count('"document_id"'), deleted["document_id"] in listed) == (1, False)


async def test_backups_are_dated_and_the_oldest_is_removed(freki: Freki, folder: Path, tmp_path: Path) -> None:
    await freki_command(freki, "publish", str(folder), "--wait")
    (tmp_path / "freki-20200101T000000Z").mkdir()
    (tmp_path / "freki-20200101T000000Z" / "manifest.json").touch()
    (tmp_path / "notes").mkdir()

    code, printed = await freki_command(freki, "export", str(tmp_path), "--keep", "1")

    assert code == 0, printed
    kept, notes = sorted(names_in(tmp_path) - {folder.name})
    assert (kept > "freki-2026", notes, kept in printed.replace("\n", "")) == (True, "notes", True)


async def test_status_topics_models_schemas_and_letters_can_be_looked_at(freki: Freki, tmp_path: Path) -> None:
    for arguments, *expected in (
        (("status",), "freki.documents.v1", f"broker: {freki.settings.kafka.bootstrap}, topics freki.*"),
        (("topics", "list"), "as declared"),
        (("topics", "apply"), "all topics are there"),
        (("models", "list"), "multilingual-e5-small"),
        (("schemas", "list"), "DocumentChange"),
        (("schemas", "export", str(tmp_path)), "ContextQuery.avsc"),
        (("dead-letters", "list"),),
    ):
        code, printed = await freki_process(freki, *arguments)
        assert code == 0, printed
        assert all(text in printed.replace("\n", "") for text in expected)


async def test_scripts_get_json(freki: Freki, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Der Hafen liegt im Süden der Stadt.", encoding="utf-8")
    published = json.loads((await freki_process(freki, "publish", str(tmp_path / "a.txt"), "--wait", "--json"))[1])
    assert (published["status"], published["chunks"]) == ("INDEXED", 1)
    for arguments, key, expected in (
        (("topics", "list"), "state", "as declared"),
        (("generations", "list"), "answers", True),
        (("models", "list"), "model", "multilingual-e5-small"),
        (("groups", "list"), "user", None),
        (("hold", "list"), "name", None),
        (("object", "list"), "name", None),
    ):
        code, printed = await freki_command(freki, *arguments, "--json")
        assert code == 0, printed
        rows = [json.loads(line) for line in printed.splitlines()]
        assert (expected in [row[key] for row in rows]) is (expected is not None), printed
    deletion = ("delete", published["document_id"], "--json")
    assert json.loads((await freki_process(freki, *deletion))[1]) == {"published": 1}


async def test_a_trace_shows_the_stages_of_its_question(freki: Freki, folder: Path) -> None:
    await freki_command(freki, "publish", str(folder), "--wait")

    code, printed = await freki_command(freki, "ask", "Bahnfahrt", "--trace")

    assert code == 0, printed
    assert all(name in printed for name in ("process freki.queries.v1", "search.dense", "send freki.contexts.v1"))


async def test_a_watched_folder_follows_its_files(freki: Freki, folder: Path) -> None:
    await freki_command(freki, "publish", str(folder), "--wait")
    watcher = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "freki", "watch", str(folder)),
        env={**environment(freki), "PYTHONUNBUFFERED": "1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert watcher.stdout is not None

    async def line_with(text: str) -> str:
        assert watcher.stdout is not None
        async with asyncio.timeout(60):
            while True:
                line = (await watcher.stdout.readline()).decode()
                assert line, "the watcher ended"
                if text in line:
                    return line

    try:
        await line_with("2 unchanged and not published")
        await line_with("Watching")
        (folder / "neu.md").write_text("# Neu\n\nDie Kantine öffnet um elf Uhr.\n", encoding="utf-8")
        created = await line_with("neu.md")
        (folder / "neu.md").unlink()
        removed = await line_with("neu.md")
    finally:
        # Not SIGINT: a background shell makes its children deaf to that.
        watcher.terminate()
        code = await watcher.wait()

    assert code == 0
    assert "indexed" in created
    assert "deleted" in removed


async def test_a_repository_and_a_web_site_can_be_asked(freki: Freki, tmp_path: Path) -> None:
    repository = Repository(tmp_path / f"wiki-{secrets.token_hex(4)}")
    repository.commit({"kantine.md": "# Kantine\n\nDie Kantine öffnet um elf Uhr.\n"})
    with serving() as site:
        site.page("/", '<html lang="de"><h1>Amt</h1><p>Willkommen.</p><a href="/parken">Parken</a>')
        site.page("/parken", "<html lang='de'><h1>Parken</h1><p>Der Parkplatz liegt hinter dem Rathaus.</p>")
        crawled = await freki_process(
            freki, "crawl", f"{site.url}/", "--no-browser", "--private-host", "127.0.0.1", "--wait"
        )
        place = await freki_command(
            freki, "ask", "Wo liegt der Parkplatz?", "--filter", f"attributes.source_url={site.url}/parken"
        )
    published = await freki_process(freki, "git", str(repository.path), "--wait")
    repository.commit({"kantine.md": "# Kantine\n\nDie Kantine öffnet um zwölf Uhr.\n"}, time_s=1_700_000_100)
    again = await freki_command(freki, "git", str(repository.path), "--wait")
    time = await freki_command(freki, "ask", "Wann öffnet die Kantine?")

    assert (crawled[0], published[0], again[0]) == (0, 0, 0), (crawled, published, again)
    assert "2 indexed" in crawled[1]
    assert "hinter dem Rathaus" in place[1]
    assert "1 indexed" in published[1]
    assert "um zwölf Uhr" in time[1]
    assert "um elf Uhr" not in time[1]


async def test_mistakes_end_with_one_line_that_names_the_fix(freki: Freki) -> None:
    for arguments, expected in (
        (("publish", "/nowhere/at/all"), "/nowhere/at/all"),
        (("ask", "Was?", "--filter", "name"), "at character 5: =, !=,"),
        (("worker", "bake"), "there is no stage 'bake'"),
        (("dead-letters", "show", "9/9"), "dead-letters list"),
    ):
        code, printed = await freki_process(freki, *arguments)
        assert code != 0
        assert expected in printed
        assert "Traceback" not in printed


async def test_an_agent_searches_and_reads_as_the_documentation_configures_it(
    freki: Freki, folder: Path, tmp_path: Path
) -> None:
    assert (await freki_command(freki, "publish", str(folder), "--wait"))[0] == 0
    page = (Path(__file__).parents[2] / "docs" / "tools.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```json\n(.*?)```", page, flags=re.DOTALL)
    configured = json.loads(shown)["mcpServers"]["freki"]
    here = {"FREKI_TENANT": os.environ["FREKI_TENANT"], "FREKI_LOCAL__STATE_DIR": str(freki.settings.local.state_dir)}
    assert set(configured["env"]) == set(here)
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "freki", *configured["args"]],
        env={"PYTHONPATH": os.environ.get("PYTHONPATH", ""), **here},
        cwd=tmp_path,
    )

    async with Client(stdio_client(server)) as agent:
        found = await agent.call_tool("keyword_search", {"keywords": ["Bahnfahrt"]})
        (chunk,) = found.structured_content["chunks"]
        read = await agent.call_tool("chunk_read", {"chunk_ids": [chunk["chunk_id"], "0" * 32]})
        meant = await agent.call_tool("semantic_search", {"query": "Who pays for the train ticket?", "top_k": 1})

    (whole,) = read.structured_content["chunks"]
    assert "Bahnfahrt wird erstattet" in whole["quoted_text"]
    assert any("0" * 32 in notice for notice in read.structured_content["notices"])
    assert [each["document_id"] for each in meant.structured_content["chunks"]] == [chunk["document_id"]]


async def test_agents_without_a_broker_are_told_how_to_start_one(tmp_path: Path) -> None:
    nowhere = {"FREKI_KAFKA__BOOTSTRAP": "127.0.0.1:1", "FREKI_KAFKA__PROFILE": "local"}
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "freki", "mcp"], env={**os.environ, **nowhere}, cwd=tmp_path
    )

    async with Client(stdio_client(server)) as agent:
        refused = await agent.call_tool("semantic_search", {"query": "Wer haftet?"})

    assert refused.is_error
    assert "freki up" in str(refused.content)


async def test_words_find_a_chunk_that_is_then_read_by_its_id(freki: Freki, folder: Path) -> None:
    assert (await freki_command(freki, "publish", str(folder), "--wait"))[0] == 0

    code, printed = await freki_command(freki, "ask", "Bahnfahrt", "--kind", "keyword_search", "--json")
    (hit,) = json.loads(printed)["hits"]
    read, shown = await freki_command(freki, "ask", "--chunk", hit["chunk_id"])

    assert (code, read) == (0, 0)
    assert "Bahnfahrt" in hit["snippets"][0]["text"]
    assert "Die Bahnfahrt wird erstattet." in shown
