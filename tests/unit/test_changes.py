import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import typer

from freki.cli.changes import FileArguments, gone, recorded
from freki.infra.settings import Settings
from freki.schemas import DocumentChange, TenantId
from freki.streams.feed.files import FileFields
from freki.streams.wire.from_settings import wall_clock
from tests.unit.test_file_source import Place, file

FIELDS = FileFields(tenant=TenantId("t"), principals=("everyone",), attributes={"team": "a"}, language="de")
LINE = {"op": "upsert", "document_id": "a", "version": 7, "content": "x"}


def changes(folder: Path, *lines: dict[str, object]) -> Sequence[DocumentChange]:
    path = folder / "s.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return list(recorded(path, FIELDS))


def test_a_counter_is_no_time_and_a_time_as_a_version_is(tmp_path: Path) -> None:
    later = wall_clock() + 86_400_000
    versions = (7, 1_646_797_058, 1_646_797_058_000, later, 1_646_797_058_000_000)

    found = changes(tmp_path, *(LINE | {"version": version} for version in versions))

    assert [change.occurred_at for change in found] == [0, 0, 1_646_797_058_000, 0, 0]
    assert [change.version for change in found] == list(versions)
    assert changes(tmp_path, LINE | {"occurred_at": 5})[0].occurred_at == 5


def test_options_hold_for_what_a_line_leaves_out(tmp_path: Path) -> None:
    own = {"attributes": {"team": "b", "x": "y"}, "language": "en", "principals": ["hr"]}

    bare, stated, gone = changes(tmp_path, LINE, LINE | own, {"op": "delete", "document_id": "a", "version": 8})

    assert (bare.attributes, bare.language, bare.principals) == ({"team": "a"}, "de", ("everyone",))
    assert (stated.attributes, stated.language, stated.principals) == ({"team": "b", "x": "y"}, "en", ("hr",))
    assert (gone.attributes, gone.language) == ({}, None)


def test_the_kind_of_files_is_a_media_type_or_an_extension() -> None:
    kinds = {kind: FileArguments(kind=kind).fields(Settings()).media_type for kind in ("text/x-rst", "rst", ".PDF")}

    assert kinds == {"text/x-rst": "text/x-rst", "rst": "text/x-rst", ".PDF": "application/pdf"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (FileArguments(kind="banana"), "--kind banana is neither"),
        (FileArguments(language="German"), "--language German is no code such as de"),
        (FileArguments(attribute=["team"]), "--attribute team is not of the form key=value"),
        (FileArguments(attribute=["=a"]), "--attribute =a is not of the form key=value"),
        (FileArguments(attribute=["a=1", "a=2"]), "--attribute a is given twice"),
    ],
)
def test_an_option_that_means_nothing_is_refused(
    arguments: FileArguments, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended:
        arguments.fields(Settings())

    assert ended.value.exit_code == 2
    assert said in capsys.readouterr().err


def test_a_value_may_hold_what_separates_it_from_its_key() -> None:
    assert FileArguments(attribute=["a=b=c"]).fields(Settings()).attributes == {"a": "b=c"}


async def test_of_several_folders_each_is_judged_alone_whether_most_of_its_files_are_gone(tmp_path: Path) -> None:
    place = Place()
    folders = [tmp_path / "handbook", tmp_path / "wiki", tmp_path / "wiki" / "part"]
    sources = [folders[0] / f"{number}.md" for number in range(30)]
    sources += [folders[1] / f"{number}.md" for number in range(9)]
    sources += [folders[2] / f"{number}.md" for number in range(11)]
    ids = {path: f"{path.parent.name}/{path.name}" for path in sources}
    await place.publish({file(str(path), ids[path]): "x" for path in sources})
    await place.catch_up()
    for folder in folders:
        folder.mkdir()
    for path in sources[:29]:
        path.touch()

    found = await gone(await place.source(), folders, [], place.index)

    assert [(one.folder, len(one.documents), one.known) for one in found] == [
        (folders[0], 1, 30),
        (folders[1], 20, 20),
        (folders[2], 11, 11),
    ]
    assert [one.is_mass_deletion for one in found] == [False, True, True]
