"""Source code is split at its definitions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.parse_code import parse_code
from freki.operators.parse_code.lines import SourceLines
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
def test_without_a_grammar_definitions_are_told_by_their_words(language: str) -> None:
    source, expected = SOURCES[language]

    document = parse_code(source)

    assert headings(document) == expected
    assert_outline(document)


SPLINTERS = [
    "",
    "{",
    "}",
    "(",
    '"',
    "'",
    "/*",
    "*/",
    "\n",
    "    ",
    "\t",
    "def ",
    "class X:",
    ";",
    "ü",
    "\u2028",
    "#",
    "`",
    "<",
    "$$",
]
LONG = {
    "python": (
        "import x\n\n\nclass Foo(Base):\n    a = 1\n\n    # Says it.\n    @deco(\n        1,\n    )\n"
        "    async def bar(self):\n        def inner(): ...\n\n    class In:\n        def deep(self):\n"
        "            pass\n\n"
        + "        y = 2\n" * 100
        + "\nif sys.platform:\n    def run(): ...\nelse:\n    def run(): pass\n",
        [(1, "Foo"), (2, "bar"), (2, "In"), (3, "deep"), (3, "y = 2"), (1, "run"), (1, "run")],
    ),
    "typescript": (
        "export default class A extends B {\n  @input() x = 1;\n  /** Doc. */\n  static async foo(a) {\n"
        + "    call(a);\n" * 80
        + "  }\n  bar(): void;\n}\nexport const go = async (a) => {\n};\ninterface P<T> { a: string }\nconst x = 5;\n"
        "namespace N { export function inner() {} }\nmodule.exports.f = function () {};\n",
        [(1, "A"), (2, "foo"), (1, "go"), (1, "P"), (1, "N"), (1, "module.exports.f")],
    ),
    "java": (
        "package a;\n\n/** Doc. */\n@Service\npublic class Foo {\n    private int x;\n\n    @Override\n"
        "    public List<String> get(int a) throws X {\n"
        + "        call();\n" * 60
        + "    }\n\n    Foo() {}\n    enum Kind { A, B }\n}\n\nrecord R(int a) {}\n",
        [(1, "Foo"), (2, "get"), (2, "Foo"), (2, "Kind"), (1, "R")],
    ),
    "c": (
        (
            "#include <x.h>\n#ifdef A\nstatic int *foo(int a)\n{\n  return 1;\n}\n#endif\nint declared(int a);\n"
            "struct s { int a; };\ntypedef struct { int b; } t;\nvoid (*bar(void))(int) {\n}\n"
        ),
        [(1, "foo"), (1, "s"), (1, "t"), (1, "bar")],
    ),
    "cpp": (
        "namespace a::b {\ntemplate <typename T>\nclass Foo : Bar {\n public:\n  Foo() {}\n  ~Foo() {\n"
        + "    call();\n" * 60
        + "  }\n  T &get() { return t; }\n  T t;\n};\nint Foo::x() { return 1; }\n}\n",
        [(1, "a::b"), (2, "Foo"), (3, "Foo"), (3, "~Foo"), (3, "get"), (2, "Foo::x")],
    ),
    "go": (
        "package main\n\n// Foo does.\nfunc (r *T) Foo(a int) error {\n}\n\ntype Bar struct {\n}\n\nfunc main() {}\n",
        [(1, "T.Foo"), (1, "Bar"), (1, "main")],
    ),
    "rust": (
        "#[derive(Debug)]\npub struct A;\n\nimpl Foo for A {\n    pub fn bar(&self) {\n"
        + "        call();\n" * 60
        + "    }\n}\n\nmod tests {\n    fn x() {}\n}\nmacro_rules! m { () => {} }\n",
        [(1, "A"), (1, "Foo for A"), (2, "bar"), (1, "tests"), (1, "m")],
    ),
    "sql": (
        (
            "create table if not exists a.b (\n x int\n);\nCREATE OR REPLACE VIEW v AS SELECT 1;\n"
            "CREATE FUNCTION f(a int) RETURNS int AS $$ SELECT 1; $$ LANGUAGE sql;\nSELECT 2;\n"
        ),
        [(1, "a.b"), (1, "v"), (1, "f")],
    ),
    "csharp": (
        "namespace A.B\n{\n    [Serializable]\n    public sealed class Foo\n    {\n"
        "        public async Task<int> Bar(int a)\n        {\n"
        + "            Call();\n" * 50
        + "        }\n    }\n}\n",
        [(1, "A.B"), (2, "Foo"), (3, "Bar")],
    ),
}


@pytest.mark.parametrize("language", LONG)
def test_definitions_are_headings_below_those_they_stand_in(language: str) -> None:
    source, expected = LONG[language]

    document = parse_code(source, language=language)

    assert headings(document) == expected
    assert_outline(document)


def test_what_stands_right_above_a_definition_is_part_of_it() -> None:
    document = parse_code(LONG["python"][0], language="python")

    (bar,) = [text for text in texts(document, BlockKind.CODE) if "def bar" in text]
    assert bar.startswith("    # Says it.\n    @deco(\n        1,\n    )\n    async def bar")
    assert bar.endswith("def inner(): ...")


def test_a_block_comment_belongs_to_what_it_stands_above() -> None:
    document = parse_code("int x;\n\n/* What it does,\nover two lines. */\nint f() { return 1; }\n", language="c")

    assert texts(document, BlockKind.CODE)[1].startswith("/* What it does,\nover two lines. */\nint f()")


def test_a_short_class_is_not_taken_apart() -> None:
    document = parse_code(SOURCES["python"][0], language="python")

    assert headings(document) == [(1, "Foo"), (1, "run")]


def test_long_code_behind_a_definition_is_a_section_of_its_own() -> None:
    document = parse_code("def f():\n    pass\n\n\n" + "register(plugin_name)\n" * 10, language="python")

    assert headings(document) == [(1, "f"), (1, "register(plugin_name)")]


def test_seams_are_where_statements_begin_with_their_comments() -> None:
    body = "".join(f"    # Step {number}.\n    call(\n        {number},\n    )\n" for number in range(40))

    document = parse_code(f"def f():\n{body}", language="python")

    (block,) = [block for block in document.blocks if block.kind is BlockKind.CODE]
    assert parts(document, block)[6] == "# Step 5.\n    call(\n        5,\n    )"


def test_spans_count_code_points() -> None:
    document = parse_code("größe = '😀 →'\n\n\ndef prüfe_größe():\n    return 'ä'\n", language="python")

    assert headings(document) == [(1, "prüfe_größe")]
    assert texts(document, BlockKind.CODE) == ["größe = '😀 →'", "def prüfe_größe():\n    return 'ä'"]


SCRIPTS = {
    "T-SQL": (
        """USE [db]
GO
-- Reads.
CREATE PROCEDURE [dbo].[Get] @id int
AS
BEGIN
SET NOCOUNT ON;
SELECT 1;
END
GO
CREATE TABLE [dbo].[T](
 [Id] int
)
GO
""",
        ["[dbo].[Get]", "[dbo].[T]"],
    ),
    "MySQL": (
        """CREATE TABLE `k` (
  `id` int -- ;
);
DELIMITER //
CREATE DEFINER=`a`@`%` PROCEDURE p()
BEGIN
SELECT 1;
END //
""",
        ["`k`", "p"],
    ),
    "PL/SQL": (
        """CREATE OR REPLACE PACKAGE BODY pkg AS
  PROCEDURE p IS
  BEGIN
    NULL;
  END p;
END pkg;
/
CREATE TRIGGER t BEFORE INSERT ON x FOR EACH ROW
BEGIN
  :new.id := 1;
END;
/
""",
        ["pkg", "t"],
    ),
    "PL/pgSQL": (
        """\\echo Load it otherwise. \\quit
CREATE FUNCTION f() RETURNS int AS $body$
BEGIN
CREATE TABLE inner_one (a int);
END;
$body$ LANGUAGE plpgsql;
SELECT 'x;
CREATE TABLE y (';
CREATE UNIQUE INDEX IF NOT EXISTS i ON t (a);
""",
        ["f", "i"],
    ),
}


@pytest.mark.parametrize("dialect", SCRIPTS)
def test_statements_of_any_dialect_of_sql_are_whole(dialect: str) -> None:
    source, names = SCRIPTS[dialect]

    document = parse_code(source, language="sql")

    assert [title for _, title in headings(document)] == names
    assert_outline(document)


@pytest.mark.parametrize("language", ["python", "cobol", ""])
def test_what_keeps_no_grammar_is_split_by_its_words(language: str) -> None:
    prose = "Dies ist §§ kein ((( Programm, }}} sondern Text. " * 20

    document = parse_code(f"{prose}\n\nfunction Foo {{\n{prose}\n", language=language)

    assert headings(document) == [(1, "Foo")]


def test_headings_are_empty_and_the_definition_stands_in_the_code() -> None:
    document = parse_code("import x\n\n\n# Says it.\n@deco\ndef f():\n    pass\n")

    heading = document.blocks[1]
    assert (heading.title, heading.start) == ("f", heading.end)
    assert texts(document, BlockKind.CODE) == ["import x", "# Says it.\n@deco\ndef f():\n    pass"]


def test_code_without_definitions_is_one_block_with_seams_after_blank_lines() -> None:
    document = parse_code("a: 1\nb: 2\n\nc:\n  - d\n")

    (block,) = document.blocks
    assert parts(document, block) == ["a: 1\nb: 2", "c:\n  - d"]


@pytest.mark.exhaustive
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
@pytest.mark.parametrize("language", ["", "python", "cpp", "sql"])
def test_hostile_sources_are_parsed(source: str, language: str) -> None:
    assert_outline(parse_code(source, language=language))


@pytest.mark.parametrize("nested", ["(", "{", "class A {", "if (a) {", "[", "template <class T> ", "namespace a {"])
@pytest.mark.parametrize("language", ["cpp", "typescript", "rust"])
def test_code_that_nests_deep_is_parsed(nested: str, language: str) -> None:
    assert_outline(parse_code(nested * 20_000, language=language))


@given(data=st.data())
def test_any_change_to_code_leaves_an_outline_of_all_of_it(data: st.DataObject) -> None:
    language = data.draw(st.sampled_from(sorted(LONG)))
    source = LONG[language][0]
    for _ in range(data.draw(st.integers(1, 8))):
        start = data.draw(st.integers(0, len(source)))
        end = start + data.draw(st.integers(0, 200))
        source = source[:start] + data.draw(st.sampled_from(SPLINTERS)) + source[end:]

    assert_outline(parse_code(source, language=language))


@given(
    source=st.lists(st.sampled_from(["def f():", "class A:", "  def g(self):", "# c", "@d", "", "x = 1", "  "])).map(
        "\n".join
    )
)
def test_blocks_hold_all_that_is_visible(source: str) -> None:
    assert_outline(parse_code(source))


@pytest.mark.exhaustive
@pytest.mark.parametrize(("language", "sign"), [("javascript", "*+--+"), ("c", ">!"), ("python", ",+//")])
def test_what_a_grammar_takes_long_to_mend_is_read_by_its_words(language: str, sign: str) -> None:
    # Without an end it would run into the suite's timeout.
    source = f"{sign * 20_000}\n\nclass Ledger {{\n}}\n"

    document = parse_code(source, language=language)

    assert [block.title for block in document.blocks if block.heading_level] == ["Ledger"]
    assert parse_code("def f():\n    pass\n", language="python").blocks[0].title == "f"


def test_a_long_line_is_not_read_again_for_each_of_its_statements() -> None:
    # What is quadratic would run into the suite's timeout.
    lines = SourceLines("  " + "a=1;" * 10_000_000)

    assert [offset for offset in range(0, len(lines.text), 40) if lines.is_first(offset)] == [0]
    assert lines.is_first(2)
