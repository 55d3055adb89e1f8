"""Definitions by the grammar of a language, through tree-sitter."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from itertools import count
from types import MappingProxyType

from tree_sitter import Language, Node, Parser, Tree

from freki.operators.parse_code.lines import CodeStructure, SourceLines, Symbol
from freki.schemas.outline import one_line

LANGUAGES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "c": ("tree_sitter_c", "language"),
        "cpp": ("tree_sitter_cpp", "language"),
        "csharp": ("tree_sitter_c_sharp", "language"),
        "go": ("tree_sitter_go", "language"),
        "java": ("tree_sitter_java", "language"),
        "javascript": ("tree_sitter_javascript", "language"),
        "python": ("tree_sitter_python", "language"),
        "rust": ("tree_sitter_rust", "language"),
        "tsx": ("tree_sitter_typescript", "language_tsx"),
        "typescript": ("tree_sitter_typescript", "language_typescript"),
    }
)
"""Module and function with the grammar of each language."""

WHOLE_CHARS = 600
"""Maximum characters of a type that is not divided, and of nodes without seams."""
_MAX_CHARS = 2_000_000
_LEAST_REPORTS = 20_000
_BYTES_OF_REPORT = 20
"""Bytes for each further report of progress; code takes one for a hundred, and 20,000 take half a second."""
_BLOCK_BYTES = 65_536
"""Maximum characters of code; longer code is generated, and its tree would take hundreds of megabytes."""
_MAX_UNREAD_SHARE = 0.5
_MAX_NAME_CHARS = 200

# For all grammars: common node types have the same meaning.
_TYPES = {
    *("class_definition", "class_declaration", "abstract_class_declaration", "class_specifier", "struct_specifier"),
    *("struct_declaration", "union_specifier", "interface_declaration", "enum_declaration", "record_declaration"),
    *("annotation_type_declaration", "namespace_declaration", "namespace_definition", "internal_module", "module"),
    *("impl_item", "trait_item", "mod_item"),
}
_BODIED = {"struct_specifier", "union_specifier", "class_specifier", "enum_specifier"}
"""Nodes that define a type only if they have a body."""
_FUNCTIONS = {
    *("function_definition", "function_declaration", "generator_function_declaration", "function_signature"),
    *("function_item", "macro_definition", "method_definition", "method_declaration", "constructor_declaration"),
    *("compact_constructor_declaration", "destructor_declaration", "operator_declaration", "enum_specifier"),
    *("conversion_operator_declaration", "enum_item", "struct_item", "union_item", "type_item", "type_declaration"),
    *("type_alias_declaration", "type_definition", "delegate_declaration", "concept_definition"),
}
"""Nodes that are not divided."""
_WRAPPERS = {
    *("decorated_definition", "export_statement", "template_declaration", "ambient_declaration"),
    *("expression_statement", "lexical_declaration", "variable_declaration"),
}
"""Nodes that wrap one definition."""
_MAX_WRAPPERS = 4
_VALUED = {"variable_declarator", "assignment_expression"}
"""Nodes that are definitions if their value is a function."""
_HOLDERS = {
    *("ERROR", "block", "statement_block", "declaration_list", "field_declaration_list", "class_body"),
    *("interface_body", "enum_body", "enum_body_declarations", "annotation_type_body", "foreign_mod_item"),
    *("if_statement", "else_clause", "elif_clause", "try_statement", "except_clause", "finally_clause"),
    *("with_statement", "preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif", "linkage_specification"),
}
"""Nodes that contain several definitions."""
_LEADS = {"decorator", "attribute_item", "attribute_list", "modifiers"}
"""Nodes that precede the definition they belong to."""
_FUNCTION_VALUES = {"arrow_function", "function_expression", "generator_function", "class"}
_NAMING = ("type_spec", "type_alias")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def by_grammar(lines: SourceLines, language: str) -> CodeStructure | None:
    """Return the definitions in code of a language; None without a grammar, or with syntax errors."""
    parser = _parser(language)
    if parser is None or len(lines.text) > _MAX_CHARS:
        return None
    tree = _tree(parser, _in_ascii(lines.text))
    if tree is None:
        return None
    root = tree.root_node
    unread = sum(child.end_byte - child.start_byte for child in root.children if child.is_error)
    if root.is_error or unread > _MAX_UNREAD_SHARE * len(lines.text):
        return None
    return CodeStructure(tuple(_definitions(root, lines)), tuple(sorted(set(_seams(root, lines)))))


@cache
def _parser(language: str) -> Parser | None:
    if language not in LANGUAGES:
        return None
    module, function = LANGUAGES[language]
    return Parser(Language(getattr(import_module(module), function)()))


def _tree(parser: Parser, code: bytes) -> Tree | None:
    """Return the tree of code; None where the parser reports its progress too often: it mends errors in cubic time.

    Reports are counted, not seconds, so that the same code has the same tree on every machine.
    """
    reports = count()
    most = _LEAST_REPORTS + len(code) // _BYTES_OF_REPORT
    try:
        return parser.parse(
            lambda start, _: code[start : start + _BLOCK_BYTES], progress_callback=lambda *_: next(reports) >= most
        )
    except ValueError:
        parser.reset()  # it would go on with this code
        return None


def _in_ascii(text: str) -> bytes:
    """Return one byte per code point, so that offsets are equal; a letter for characters outside of ASCII."""
    return _NOT_ASCII.sub(lambda found: " " if found.group().isspace() else "x", text).encode("ascii")


def _definitions(root: Node, lines: SourceLines) -> Iterator[Symbol]:
    """Yield definitions in order."""
    waiting = [(node, 1) for node in reversed(root.named_children)]
    floor = 0
    while waiting:
        node, level = waiting.pop()
        inner = _defined(node)
        name = _name(inner, lines.text) if inner else ""
        if inner and name:
            yield Symbol(lines.begin(node.start_byte, floor), node.end_byte, level, name)
            taken_apart = inner.type in _TYPES and node.end_byte - node.start_byte > WHOLE_CHARS
            floor = inner.start_byte + 1 if taken_apart else node.end_byte
            if not taken_apart:
                continue
            level += 1
        if node.type in _HOLDERS or inner:
            held = inner or node
            waiting += [(child, level) for child in reversed(held.named_children)]


def _defined(node: Node) -> Node | None:
    """Return the definition of a node, without its wrappers."""
    for _ in range(_MAX_WRAPPERS):
        if node.type in _WRAPPERS and (last := _last(node.named_children)):
            node = last
    if node.type in _VALUED:
        value = node.child_by_field_name("value") or node.child_by_field_name("right")
        return node if value and value.type in _FUNCTION_VALUES else None
    defines = node.type in _TYPES or (node.type in _FUNCTIONS)
    refers = node.type in _BODIED and node.child_by_field_name("body") is None
    return node if defines and not refers else None


def _last(nodes: Iterable[Node]) -> Node | None:
    """Return the last significant node, which is the wrapped one."""
    return next((node for node in reversed([*nodes]) if not node.is_extra), None)


def _name(node: Node, text: str) -> str:
    """Return the name of a definition; empty where it has none."""
    if node.type == "impl_item":
        parts = (node.child_by_field_name("trait"), node.child_by_field_name("type"))
        return " for ".join(_shown(part, text) for part in parts if part)
    if node.type == "method_declaration" and (receiver := node.child_by_field_name("receiver")):
        kind = _shown(receiver, text).strip("()").rpartition(" ")[2].lstrip("*")
        return f"{kind}.{_shown(node.child_by_field_name('name'), text)}"
    named = node.child_by_field_name("name") or node.child_by_field_name("left")
    if named is None and (declared := node.child_by_field_name("declarator")):
        named = _innermost(declared)
    if named is None:
        spec = next((child for child in node.named_children if child.type in _NAMING), None)
        named = spec.child_by_field_name("name") if spec else None
    return _shown(named, text)


def _innermost(declared: Node) -> Node:
    """Return the name in a declarator of C, such as that of `*(*f)(int)`."""
    while True:
        within = declared.child_by_field_name("declarator")
        if within is None and declared.type in {"reference_declarator", "parenthesized_declarator"}:
            within = _last(declared.named_children)
        if within is None:
            return declared
        declared = within


def _shown(node: Node | None, text: str) -> str:
    return one_line(text[node.start_byte : node.end_byte])[:_MAX_NAME_CHARS] if node else ""


def _seams(root: Node, lines: SourceLines) -> Iterator[int]:
    """Yield the starts of the children of longer nodes, if at the beginning of a line."""
    waiting = [(root, 0)]
    while waiting:
        node, floor = waiting.pop()
        lead = None
        for child in node.named_children:
            if child.end_byte - child.start_byte > WHOLE_CHARS:
                # In the grammar of Python, a comment above the first statement of a block precedes the block.
                waiting.append((child, floor))
            if "comment" in child.type or child.type in _LEADS:
                lead = child.start_byte if lead is None and lines.is_first(child.start_byte) else lead
                continue
            start = child.start_byte if lead is None else lead
            if lines.is_first(start):
                yield lines.begin(start, floor)
            floor, lead = child.end_byte, None
