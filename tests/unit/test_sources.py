import json
import os
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from freki.infra.sources import Inaccessible, StreamRecord, is_missing, read_source, read_stream, walk
from freki.infra.sources.watch import FolderState
from freki.schemas.errors import Rejected

NOBODY = 65534
UPSERT = {"op": "upsert", "document_id": "a.md", "version": 1, "content": "Größe"}


def ids(*paths: Path, **naming: Any) -> list[str]:
    return [file.document_id for file in walk(paths, **{"name": "", **naming})]


def make(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")
    return folder


def lines(*records: Any) -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


def stream(tmp_path: Path, content: bytes, name: str = "s.jsonl") -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


def test_a_folder_gives_its_files_below_in_order_with_their_paths_as_ids(tmp_path: Path) -> None:
    make(tmp_path, "b.md", "a/z.md", "a/b/c.md", "c/a.md")

    assert ids(tmp_path) == ["a/b/c.md", "a/z.md", "b.md", "c/a.md"]


def test_a_file_that_is_named_itself_goes_by_its_name_even_if_hidden(tmp_path: Path) -> None:
    make(tmp_path, "a/.notes.md")

    assert ids(tmp_path / "a" / ".notes.md") == [".notes.md"]


def test_a_hidden_folder_that_is_named_itself_is_read(tmp_path: Path) -> None:
    make(tmp_path, ".wiki/a.md")

    assert ids(tmp_path / ".wiki") == ["a.md"]


@pytest.mark.parametrize(
    "name",
    [
        ".git/config",
        ".hidden.md",
        "CVS/Root",
        "a.md~",
        ".a.md.swp",
        "#a.md#",
        ".#a.md",
        "~$a.docx",
        "4913",
        "a.md.part",
        "a.md.filepart",
        "a.md___jb_tmp___",
        "lost+found/#123",
        "THUMBS.DB",
        "Desktop.ini",
        "3F2A1B00.TMP",
        "$RECYCLE.BIN/S-1-5/a.md",
        "System Volume Information/a.md",
        "#recycle/a.md",
        "@Recycle/a.md",
        "@eaDir/a.md",
    ],
)
def test_what_is_hidden_or_left_by_tools_is_no_document(tmp_path: Path, name: str) -> None:
    make(tmp_path, name, f"deep/{name}", "a.md")

    assert ids(tmp_path) == ["a.md"]


def test_a_link_to_a_file_within_the_folder_is_a_document(tmp_path: Path) -> None:
    make(tmp_path, "..data/a.md")
    (tmp_path / "a.md").symlink_to("..data/a.md")

    assert ids(tmp_path) == ["a.md"]


def test_links_that_lead_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    make(tmp_path, "outside/secret.md", "inside/a.md")
    (tmp_path / "inside" / "file.md").symlink_to(tmp_path / "outside" / "secret.md")
    (tmp_path / "inside" / "folder").symlink_to(tmp_path / "outside")

    assert ids(tmp_path / "inside") == ["a.md"]


def test_links_in_circles_and_to_nowhere_do_no_harm(tmp_path: Path) -> None:
    make(tmp_path, "a/a.md")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "a" / "self.md").symlink_to("self.md")
    (tmp_path / "a" / "nowhere.md").symlink_to("gone.md")

    assert ids(tmp_path) == ["a/a.md"]


def test_a_link_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")

    with pytest.raises(Rejected, match=r"loop: Too many levels of symbolic links"):
        ids(tmp_path / "loop")


def test_a_folder_that_is_named_by_a_link_is_read(tmp_path: Path) -> None:
    make(tmp_path, "real/a.md")
    (tmp_path / "link").symlink_to("real")

    assert ids(tmp_path / "link") == ["a.md"]


def test_what_is_no_regular_file_is_no_document(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")

    assert ids(tmp_path) == []
    with pytest.raises(Rejected, match="neither a file nor a folder"):
        ids(tmp_path / "pipe.md")


def test_an_id_has_one_spelling_whatever_the_file_system_uses(tmp_path: Path) -> None:
    make(tmp_path, unicodedata.normalize("NFD", "Größe.md"))

    assert ids(tmp_path) == [unicodedata.normalize("NFC", "Größe.md")]


def test_two_files_with_one_id_are_refused_with_the_options_that_keep_them_apart(tmp_path: Path) -> None:
    make(tmp_path, "a/doc/index.md", "b/doc/index.md")

    with pytest.raises(Rejected) as refused:
        ids(tmp_path / "a" / "doc", tmp_path / "b" / "doc", name=None)

    advice = f"would both be document doc/index.md: publish them with --root {tmp_path}, or apart, each with its own"
    assert advice in str(refused.value)
    both = ids(tmp_path / "a" / "doc", tmp_path / "b" / "doc", name=None, root=tmp_path)
    assert both == [f"{tmp_path.name}/a/doc/index.md", f"{tmp_path.name}/b/doc/index.md"]


def test_two_files_whose_names_differ_in_unicode_form_are_refused_with_what_helps(tmp_path: Path) -> None:
    make(tmp_path, "A\u0308mter/a.md", "\u00c4mter/a.md")

    with pytest.raises(Rejected, match="differ only in Unicode normalisation") as refused:
        ids(tmp_path)

    assert "--root" not in str(refused.value)
    assert r"A\u0308mter" in str(refused.value)


def test_two_files_whose_names_differ_in_unicode_form_hinder_none_where_some_may_be_left_out(tmp_path: Path) -> None:
    make(tmp_path, "A\u0308mter/a.md", "\u00c4mter/a.md", "b.md")
    left_out: list[Rejected] = []

    found = ids(tmp_path, tmp_path, leave_out=left_out.append)

    assert sorted(found) == ["b.md", "\u00c4mter/a.md", "\u00c4mter/a.md"]
    assert not left_out


def test_an_id_is_the_name_of_the_root_and_the_path_below_it(tmp_path: Path) -> None:
    folder = make(tmp_path / "handbook", "a/b.md", "c.md")

    assert ids(folder, name=None) == ["handbook/a/b.md", "handbook/c.md"]
    assert ids(folder / "c.md", name=None) == ["handbook/c.md"]
    assert ids(folder / "a" / "b.md", name=None, root=folder) == ["handbook/a/b.md"]
    assert ids(folder / "a", name="wiki/", root=folder) == ["wiki/a/b.md"]


def test_an_id_does_not_depend_on_where_one_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(tmp_path / "handbook", "a.md", "sub/b.md")
    (tmp_path / "link").symlink_to(folder)
    found: set[tuple[tuple[str, str], ...]] = set()
    for here, path in ((tmp_path, "handbook"), (folder, "."), (folder / "sub", ".."), (tmp_path, "link")):
        monkeypatch.chdir(here)
        found.add(tuple((file.document_id, file.uri) for file in walk([Path(path)])))
    for here, path in (
        (folder, "a.md"),
        (folder / "sub", "../a.md"),
        (tmp_path, "link/a.md"),
        (tmp_path, "link/./a.md"),
    ):
        monkeypatch.chdir(here)
        [alone] = walk([Path(path)])
        found.add(((alone.document_id, alone.uri), ("handbook/sub/b.md", (folder / "sub" / "b.md").as_uri())))

    assert len(found) == 1


def test_what_lies_outside_of_the_root_is_refused(tmp_path: Path) -> None:
    make(tmp_path, "a/x.md", "b/y.md")

    with pytest.raises(Rejected, match="is not in --root"):
        ids(tmp_path / "a", root=tmp_path / "b")
    with pytest.raises(Rejected, match="is no folder"):
        ids(tmp_path / "a", root=tmp_path / "b" / "y.md")


def test_a_source_is_missing_only_if_it_is_a_file_of_this_machine(tmp_path: Path) -> None:
    make(tmp_path, "Größe 1.md")

    assert not is_missing((tmp_path / "Größe 1.md").as_uri())
    assert is_missing((tmp_path / "Größe 2.md").as_uri())
    assert not is_missing("https://example.org/nowhere")
    assert not is_missing("file://elsewhere/nowhere")
    # Any producer may state any address.
    assert not is_missing("http://[")


def test_a_link_to_nowhere_and_what_a_linked_folder_leads_to_are_missing(tmp_path: Path) -> None:
    make(tmp_path, "real/a.md")
    (tmp_path / "nowhere.md").symlink_to("real/gone.md")
    (tmp_path / "b.md").symlink_to("real/a.md")
    (tmp_path / "link").symlink_to("real")

    assert is_missing((tmp_path / "nowhere.md").as_uri())
    assert is_missing((tmp_path / "link" / "a.md").as_uri())
    assert not is_missing((tmp_path / "b.md").as_uri())


def test_a_pipe_in_the_place_of_a_file_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.md")

    assert is_missing((tmp_path / "a.md").as_uri())


@contextmanager
def unprivileged(folder: Path) -> Iterator[None]:
    """Act as a user whom rights bind, where root runs the tests; the folder becomes hers."""
    if os.geteuid() != 0:
        yield
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Give a folder that other users reach, unlike `tmp_path`."""
    with TemporaryDirectory() as folder:
        yield Path(folder).resolve()


def test_an_error_of_the_device_is_one_of_this_file_and_no_outage() -> None:
    # The first page of a process is never mapped: EIO.
    [file] = walk([Path("/proc/self/mem")])

    with pytest.raises(Inaccessible, match=r"mem: Input/output error"):
        read_source(file, max_bytes=1)


def test_a_path_that_is_too_long_for_the_system_is_left_out(tmp_path: Path) -> None:
    make(tmp_path, "a.md", "deep/b.md")
    folder = os.open(tmp_path / "deep", os.O_RDONLY)
    for _ in range(20):
        os.mkdir("x" * 250, dir_fd=folder)
        inner = os.open("x" * 250, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    left_out: list[Rejected] = []

    found = [file.path.name for file in walk([tmp_path], leave_out=left_out.append)]

    assert found == ["a.md", "b.md"]
    assert [str(each).endswith("File name too long") for each in left_out] == [True]


@pytest.mark.parametrize(("mode", "place"), [(0o644, "sub/b.md"), (0o311, "sub"), (0, "sub")])
def test_an_inaccessible_folder_in_a_folder_is_left_out_and_nothing_below_is_missing(
    open_folder: Path, mode: int, place: str
) -> None:
    make(open_folder, "a.md", "sub/b.md")
    left_out: list[Rejected] = []
    with unprivileged(open_folder):
        state = FolderState(open_folder, walk([open_folder]), leave_out=left_out.append)
        (open_folder / "sub").chmod(mode)
        try:
            with pytest.raises(Rejected, match=f"{place}: Permission denied"):
                ids(open_folder)
            with pytest.raises(Rejected, match=r"sub(/b\.md)?: Permission denied"):
                list(walk([open_folder / "sub" / "b.md", open_folder / "sub"]))
            found = list(walk([open_folder], leave_out=left_out.append))
            for now in range(3):
                assert state.look({open_folder}, now) == []
            is_taken_as_missing = is_missing((open_folder / "sub" / "b.md").as_uri())
        finally:
            (open_folder / "sub").chmod(0o755)

    assert [file.path.name for file in found] == ["a.md"]
    assert [str(each) for each in left_out] == [f"{open_folder / place}: Permission denied"] * 2
    assert not is_taken_as_missing
    assert state.look({open_folder}, now=4) == state.look(set(), now=5) == []


def test_a_link_that_leads_out_to_what_is_inaccessible_does_no_harm(open_folder: Path) -> None:
    make(open_folder, "inside/a.md", "closed/b.md")
    (open_folder / "inside" / "link.md").symlink_to(open_folder / "closed" / "b.md")
    with unprivileged(open_folder):
        (open_folder / "closed").chmod(0)
        try:
            found = ids(open_folder / "inside")
        finally:
            (open_folder / "closed").chmod(0o755)

    assert found == ["a.md"]


def test_a_link_to_a_name_that_is_too_long_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link.md").symlink_to("x" * 300)

    with pytest.raises(Rejected, match=r"link\.md: File name too long"):
        ids(tmp_path)


def test_the_same_folder_named_twice_is_read_once(tmp_path: Path) -> None:
    make(tmp_path, "a.md")

    assert ids(tmp_path, tmp_path) == ["a.md"]


def test_a_name_that_is_no_text_in_a_folder_may_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("a")
    (tmp_path / "l\udce4nge.md").write_text("b")
    left_out: list[Rejected] = []

    found = list(walk([tmp_path], leave_out=left_out.append))

    assert [file.path.name for file in found] == ["a.md"]
    assert [str(each).partition(":")[0] for each in left_out] == [ascii(str(tmp_path / "l\udce4nge.md"))]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("two\nlines.md", "U+000A"),
        ("tab\t.md", "U+0009"),
        (f"{'ü' * 120}/{'ü' * 120}/{'ü' * 120}.md", "bytes, more than 512"),
    ],
)
def test_a_name_that_no_worker_would_take_as_an_id_is_left_out(tmp_path: Path, name: str, reason: str) -> None:
    folder = make(tmp_path / "amt", "a.md", name)
    left_out: list[Rejected] = []

    found = list(walk([folder], leave_out=left_out.append))

    assert [file.path.name for file in found] == ["a.md"]
    assert [reason in str(each) for each in left_out] == [True]


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"a\xff.md")).touch()

    with pytest.raises(Rejected, match="rename the file"):
        ids(tmp_path)


def test_a_path_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match=r"gone\.md: No such file"):
        ids(tmp_path / "gone.md")


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("A.MD", "text/markdown"),
        ("a.html", "text/html"),
        ("a.pdf", "application/pdf"),
        ("a.eml", "message/rfc822"),
        ("a.xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        ("a.py", None),
        ("README", None),
    ],
)
def test_the_name_tells_the_media_type_where_it_can(tmp_path: Path, name: str, media_type: str | None) -> None:
    make(tmp_path, name)

    assert [file.media_type for file in walk([tmp_path])] == [media_type]


def test_a_file_tells_size_and_time_and_is_read_only_on_demand(tmp_path: Path) -> None:
    make(tmp_path, "a.md")
    os.utime(tmp_path / "a.md", ns=(0, 1_700_000_000_123_456_789))

    [file] = walk([tmp_path])

    assert (file.size, file.modified_at) == (4, 1_700_000_000_123)
    assert read_source(file, max_bytes=4) == b"a.md"


def test_a_file_over_the_limit_is_refused_with_the_setting_that_limits_it(tmp_path: Path) -> None:
    make(tmp_path, "a.md")
    [file] = walk([tmp_path])

    with pytest.raises(Rejected, match="FREKI_CLAIMS__MAX_BYTES"):
        read_source(file, max_bytes=3)


def test_a_file_that_went_since_is_refused(tmp_path: Path) -> None:
    make(tmp_path, "a.md")
    [file] = walk([tmp_path])
    file.path.unlink()

    with pytest.raises(Rejected, match=r"a\.md: No such file"):
        read_source(file, max_bytes=10)


def _linked(place: Path, target: Path) -> None:
    if place.is_dir():
        place.rename(place.with_name("before"))
    else:
        place.unlink()
    place.symlink_to(target)


@pytest.mark.parametrize("place", ["d/a.md", "d"])
def test_a_link_that_takes_the_place_of_a_file_or_folder_is_not_followed_out_of_the_folder(
    tmp_path: Path, place: str
) -> None:
    make(tmp_path, "folder/d/a.md", "secret/a.md")
    [file] = walk([tmp_path / "folder"])
    _linked(tmp_path / "folder" / place, tmp_path / "secret" / ("a.md" if place != "d" else ""))

    with pytest.raises(Rejected, match=r"a\.md: .*became a link"):
        read_source(file, max_bytes=100)


def test_a_link_in_the_folder_is_read_where_it_led_to(tmp_path: Path) -> None:
    make(tmp_path, "folder/a.md", "secret/a.md")
    (tmp_path / "folder" / "b.md").symlink_to("a.md")
    _, file = walk([tmp_path / "folder"])
    assert read_source(file, max_bytes=100) == b"folder/a.md"

    _linked(file.path, tmp_path / "secret/a.md")

    assert read_source(file, max_bytes=100) == b"folder/a.md"


def test_a_pipe_that_takes_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    make(tmp_path, "a.md")
    [file] = walk([tmp_path])
    file.path.unlink()
    os.mkfifo(file.path)

    with pytest.raises(Rejected, match=r"a\.md: is no file any more"):
        read_source(file, max_bytes=100)


def test_a_file_that_is_replaced_by_another_is_read(tmp_path: Path) -> None:
    make(tmp_path, "a.md", "b.tmp")
    [file] = walk([tmp_path])
    (tmp_path / "b.tmp").replace(file.path)

    assert read_source(file, max_bytes=100) == b"b.tmp"


def test_a_given_link_is_read_wherever_it_leads(tmp_path: Path) -> None:
    make(tmp_path, "folder/x", "other/a.md")
    (tmp_path / "folder" / "b.md").symlink_to(tmp_path / "other/a.md")

    [file] = walk([tmp_path / "folder" / "b.md"])

    assert (file.document_id, read_source(file, max_bytes=100)) == ("folder/b.md", b"other/a.md")


def plain(content: bytes) -> tuple[str, bytes]:
    return "s.jsonl", content


def compressed(content: bytes) -> tuple[str, bytes]:
    return "s.jsonl.zst", zstandard.compress(content)


def in_two_frames(content: bytes) -> tuple[str, bytes]:
    half = len(content) // 2
    return "s.jsonl.zst", zstandard.compress(content[:half]) + zstandard.compress(content[half:])


@pytest.mark.parametrize("form", [plain, compressed, in_two_frames])
def test_a_stream_gives_one_record_a_line(tmp_path: Path, form: Callable[[bytes], tuple[str, bytes]]) -> None:
    delete = {"op": "delete", "document_id": "a.md", "version": 2, "commit": "ignored"}
    name, content = form(lines(UPSERT) + b"\n" + lines(delete))

    assert list(read_stream(stream(tmp_path, content, name))) == [
        StreamRecord(op="upsert", document_id="a.md", version=1, content="Größe"),
        StreamRecord(op="delete", document_id="a.md", version=2),
    ]


@given(texts=st.lists(st.text(max_size=3000), max_size=20))
def test_every_content_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    path = tmp_path_factory.mktemp("stream") / "s.jsonl.zst"
    path.write_bytes(zstandard.compress(lines(*[UPSERT | {"content": text} for text in texts])))

    assert [record.content for record in read_stream(path)] == texts


def test_a_record_may_say_more_than_its_content(tmp_path: Path) -> None:
    more = {"principals": ["hr"], "attributes": {"a": "b"}, "priority": 3, "occurred_at": 5, "language": "de"}

    [record] = read_stream(stream(tmp_path, lines(UPSERT | more)))

    assert record.principals == ("hr",)
    assert record.attributes == {"a": "b"}
    assert (record.priority, record.occurred_at, record.language) == (3, 5, "de")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"op": "upsert"', "Invalid JSON"),
        (b"\xff\n", "Invalid JSON"),
        (b"[]\n", "object"),
        (lines(UPSERT | {"op": "insert"}), "op: "),
        (lines(UPSERT | {"version": 0}), "version: "),
        (lines(UPSERT | {"version": "7"}), "version: "),
        (lines(UPSERT | {"version": 2**63}), "version: "),
        (lines(UPSERT | {"priority": 2**63}), "priority: "),
        (lines(UPSERT | {"document_id": ""}), "document_id: "),
        (lines(UPSERT | {"content": None}), "an upsert needs content"),
        (lines(UPSERT | {"op": "delete"}), "a delete has none"),
        (b'{"op": "upsert", "document_id": "a", "version": 1, "content": "\\ud800"}', "Invalid JSON"),
        (b"[" * 100_000, "recursion"),
    ],
)
def test_a_line_that_is_no_change_is_refused_with_its_number(tmp_path: Path, line: bytes, message: str) -> None:
    records = read_stream(stream(tmp_path, lines(UPSERT) + line))

    assert next(records).document_id == "a.md"
    with pytest.raises(Rejected, match=f"line 2: .*{message}"):
        next(records)


def test_a_refusal_does_not_repeat_the_content(tmp_path: Path) -> None:
    with pytest.raises(Rejected) as failure:
        list(read_stream(stream(tmp_path, lines(UPSERT | {"content": ["swordfish"]}))))

    assert "swordfish" not in str(failure.value)


@pytest.mark.parametrize("form", [plain, compressed])
def test_a_line_over_the_limit_is_refused(tmp_path: Path, form: Callable[[bytes], tuple[str, bytes]]) -> None:
    name, content = form(lines(UPSERT) + b" " * 1_000_000)

    with pytest.raises(Rejected, match="line 2: longer than 1000 bytes"):
        list(read_stream(stream(tmp_path, content, name), max_line_bytes=1000))


@pytest.mark.parametrize("cut", [1, 5, 50])
def test_a_cut_file_is_refused_and_not_taken_for_the_whole(tmp_path: Path, cut: int) -> None:
    content = zstandard.compress(lines(*[UPSERT | {"document_id": os.urandom(20).hex()} for _ in range(100)]))

    with pytest.raises(Rejected, match="it ends too early"):
        list(read_stream(stream(tmp_path, content[:-cut], "s.jsonl.zst")))


def test_what_is_not_compressed_as_its_name_says_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="no Zstandard file"):
        list(read_stream(stream(tmp_path, lines(UPSERT), "s.jsonl.zst")))


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match=r"a \.jsonl or \.jsonl\.zst file"):
        list(read_stream(stream(tmp_path, b"", "s.json")))


def test_a_stream_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="No such file"):
        list(read_stream(tmp_path / "s.jsonl"))


def test_a_stream_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = stream(tmp_path, b"\xef\xbb\xbf" + lines(UPSERT))

    assert [record.content for record in read_stream(path)] == ["Größe"]
