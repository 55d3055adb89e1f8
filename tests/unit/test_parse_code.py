"""Source code is split at its definitions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.parse_code import parse_code
from freki.schemas.outline import BlockKind
from tests.unit.outlines import assert_outline, headings, parts, texts

SOURCES = {
    "python": (
        (
            "import x\n\n@deco\nclass Foo(Base):\n    a = 1\n\n    def bar(self):\n        def inner(): ...\n\n"
            "async def run(a,\n              b):\n    pass\n"
        ),
        [(1, "Foo"), (2, "bar"), (1, "run")],
    ),
    "typescript": (
        (
            "export default class A extends B {\n  static async foo(a) {\n  }\n}\nexport const go = async (a) => {\n};"
            "\ninterface P<T> { a: string }\nconst x = 5;\n"
        ),
        [(1, "A"), (2, "foo"), (1, "go"), (1, "P<T>")],
    ),
    "java": (
        (
            "package a;\n\n/** Doc. */\n@Service\npublic class Foo {\n    private int x;\n\n    @Override\n"
            "    public List<String> get(int a) throws X {\n        if (a > 0) {\n        }\n    }\n}\n"
        ),
        [(1, "Foo"), (2, "get")],
    ),
    "c": (
        ("#include <x.h>\n\nstatic int foo(int a)\n{\n  return 1;\n}\nint declared(int a);\nvoid *bar(void) {\n}\n"),
        [(1, "foo"), (1, "bar")],
    ),
    "go": ("package main\n\nfunc (r *T) Foo(a int) error {\n}\n\ntype Bar struct {\n}\n", [(1, "Foo"), (1, "Bar")]),
    "rust": (
        ("#[derive(Debug)]\npub struct A;\n\nimpl Foo for A {\n    pub fn bar(&self) {}\n}\n"),
        [(1, "A"), (1, "Foo for A"), (2, "bar")],
    ),
    "shell": ("set -e\nfoo() {\n  x\n}\nfunction bar {\n  y\n}\n", [(1, "foo"), (1, "bar")]),
    "sql": (
        ("create table if not exists a.b (\n x int\n);\nCREATE OR REPLACE VIEW v AS SELECT 1;\n"),
        [(1, "a.b"), (1, "v")],
    ),
    "c#": (
        ("namespace A.B;\n\npublic sealed class Foo\n{\n    public async Task<int> Bar(int a)\n    {\n    }\n}\n"),
        [(1, "A.B"), (1, "Foo"), (2, "Bar")],
    ),
}


@pytest.mark.parametrize("language", SOURCES)
def test_definitions_are_headings(language: str) -> None:
    source, expected = SOURCES[language]

    document = parse_code(source)

    assert headings(document) == expected
    assert_outline(document)


def test_headings_are_empty_and_the_definition_stands_in_the_code() -> None:
    document = parse_code("import x\n\n\n# Says it.\n@deco\ndef f():\n    pass\n")

    heading = document.blocks[1]
    assert (heading.title, heading.start) == ("f", heading.end)
    assert texts(document, BlockKind.CODE) == ["import x", "# Says it.\n@deco\ndef f():\n    pass"]


def test_code_without_definitions_is_one_block_with_seams_after_blank_lines() -> None:
    document = parse_code("a: 1\nb: 2\n\nc:\n  - d\n")

    (block,) = document.blocks
    assert parts(document, block) == ["a: 1\nb: 2", "c:\n  - d"]


@pytest.mark.parametrize(
    "source",
    [
        "x" * 1_000_000,
        "def f(): pass\n" * 10_000,
        "public " * 100_000,
        "# x\n" * 50_000 + "def f(): 1\n",
        ("a " * 249 + "\n") * 1000,
    ],
    ids=["word", "definitions", "modifiers", "comments", "words"],
)
def test_hostile_sources_are_parsed(source: str) -> None:
    assert_outline(parse_code(source))


@given(
    source=st.lists(st.sampled_from(["def f():", "class A:", "  def g(self):", "# c", "@d", "", "x = 1", "  "])).map(
        "\n".join
    )
)
def test_blocks_hold_all_that_is_visible(source: str) -> None:
    assert_outline(parse_code(source))
