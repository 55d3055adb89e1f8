import operator
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.infra.milvus.filters import scope_expression
from freki.infra.milvus.keys import checked_key
from freki.infra.milvus.rows import chunk_row
from freki.schemas import FILTER_FIELDS, ChunkKind, Filter, FilterOperator, RootId, TenantId
from freki.schemas.conditions import AnyOf, Comparator, Comparison, Condition, Negation
from freki.schemas.errors import Rejected
from freki.schemas.escaping import escaped, escaped_key, unescaped
from freki.schemas.index import Exclusions, IndexedChunk, Scope
from tests.conditions import TEXTS, attributes, conditions
from tests.contract.index_records import NASTY, chunk, scope
from tests.filter_model import holds
from tests.memory_index import permits

# Few letters, so that values meet; and all that has a meaning to somebody.
texts = st.one_of(st.sampled_from(NASTY), st.text("ab%_\"'\\\n[]~/ä😀\uffff", max_size=4), st.text(max_size=8))
surrogates = st.text(st.characters(categories=["Cs", "L", "P"]), max_size=4)

# The grammar of Plan.g4 as far as filters use it; a literal is read as Lite and server agree on: without escapes.
_TOKEN = re.compile(
    r"""\s*(?: "(?P<text>[^"\\\r\n]*)" | (?P<number>-?\d+(?:\.\d+)?) | (?P<mark>[=!<>]=|[<>()\[\],])
    | (?P<word>[a-z_]+) )""",
    re.VERBOSE,
)
_MISSING = object()
_ORDERED = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@dataclass(frozen=True)
class Token:
    kind: str
    value: str


def tokens(expression: str) -> Iterator[Token]:
    position = 0
    while position < len(expression):
        match = _TOKEN.match(expression, position)
        assert match, f"no token at {expression[position:]!r}"
        assert match.lastgroup is not None
        yield Token(match.lastgroup, match[match.lastgroup])
        position = match.end()


class Evaluator:
    """Reads an expression as Milvus does and evaluates it on a stored row."""

    def __init__(self, expression: str, row: dict[str, Any]) -> None:
        self.left = list(tokens(expression))
        self.row = row

    def all_hold(self) -> bool:
        held = self.joined()
        assert not self.left
        return held

    def joined(self) -> bool:
        """Read conditions that one word joins: filters never leave it to precedence."""
        held, words = [self.condition()], set()
        while self.left and self.left[0].value in ("and", "or"):
            words.add(self.left.pop(0).value)
            held.append(self.condition())
        assert len(words) < 2
        return any(held) if words == {"or"} else all(held)

    def condition(self) -> bool:
        if self.left[0] == Token("mark", "("):
            self.take("(")
            held = self.joined()
            self.take(")")
            return held
        if self.left[0].value == "array_contains_any":
            self.take("array_contains_any", "(")
            column = self.column()
            self.take(",")
            wanted = self.values()
            self.take(")")
            return bool(set(column) & set(wanted))
        value, sign = self.column(), self.left.pop(0).value
        if sign in ("in", "not"):
            if sign == "not":
                self.take("in")
            return (value in self.values()) is (sign == "in")
        literal = self.value()
        if sign in ("==", "!="):
            return bool(value == literal) is (sign == "==")
        return value is not _MISSING and bool(_ORDERED[sign](_ordered(value), _ordered(literal)))

    def column(self) -> Any:
        name = self.left.pop(0)
        assert name.kind == "word"
        if name.value != "attributes":
            return self.row[name.value]
        self.take("[")
        key = self.value()
        self.take("]")
        return self.row["attributes"].get(key, _MISSING)

    def values(self) -> list[Any]:
        self.take("[")
        values = [self.value()]
        while self.left[0].value == "," and self.left[0].kind == "mark":
            self.take(",")
            values.append(self.value())
        self.take("]")
        return values

    def value(self) -> Any:
        token = self.left.pop(0)
        if token == Token("word", "true"):
            return True
        assert token.kind in ("text", "number")
        return float(token.value) if token.kind == "number" else token.value

    def take(self, *marks: str) -> None:
        for mark in marks:
            token = self.left.pop(0)
            assert token.kind != "text"
            assert token.value == mark


def _ordered(value: Any) -> Any:
    """Texts are ordered by their bytes."""
    return value.encode() if isinstance(value, str) else value


def allows(where: Scope, row: IndexedChunk) -> bool:
    return Evaluator(scope_expression(where), chunk_row(row, np.zeros(1, dtype=np.float32))).all_hold()


def filters() -> st.SearchStrategy[Filter]:
    fields = st.one_of(
        st.sampled_from(sorted(FILTER_FIELDS)),
        texts.filter(bool).map(lambda key: f"attributes.{key}"),
        st.just("attributes.k"),
    )
    values = st.one_of(texts, st.sampled_from([kind.value for kind in ChunkKind]))
    one = st.sampled_from([FilterOperator.EQ, FilterOperator.NE, FilterOperator.PREFIX])
    several = st.sampled_from([FilterOperator.IN, FilterOperator.NOT_IN])
    return st.one_of(
        st.builds(Filter, field=fields, operator=one, values=values.map(lambda value: (value,))),
        st.builds(Filter, field=fields, operator=several, values=st.lists(values, min_size=1, max_size=3).map(tuple)),
    )


scopes = st.builds(
    Scope,
    tenant=st.sampled_from(["acme", 'a"']).map(TenantId),
    principals=st.lists(texts, max_size=2).map(tuple),
    levels=st.lists(st.integers(0, 2), max_size=2).map(tuple),
    filters=st.lists(filters(), max_size=2).map(tuple),
    left_out=st.builds(
        Exclusions,
        everything=st.booleans(),
        roots=st.lists(st.sampled_from(["r0", "r1"]).map(RootId), max_size=2).map(tuple),
        attributes=st.lists(
            st.dictionaries(st.one_of(texts.filter(bool), st.just("k")), texts, min_size=1, max_size=2).map(
                lambda group: tuple(sorted(group.items()))
            ),
            max_size=2,
        ).map(tuple),
    ),
)
rows = st.fixed_dictionaries(
    {
        "tenant": st.sampled_from(["acme", 'a"']).map(TenantId),
        "principals": st.lists(st.one_of(texts, st.just("everyone")), max_size=3).map(tuple),
        "level": st.integers(0, 2),
        "kind": st.sampled_from(ChunkKind),
        "attributes": st.dictionaries(st.one_of(texts, st.just("k")), texts, max_size=3),
        **dict.fromkeys(["document_id", "name", "media_type", "language"], texts),
    }
).map(lambda changes: chunk("c", **changes))


@given(where=scopes, row=rows)
def test_the_expression_allows_what_the_scope_permits(where: Scope, row: IndexedChunk) -> None:
    assert allows(where, row) is permits(where, row)


@given(condition=conditions, attributes=attributes, names=st.tuples(*[st.sampled_from(TEXTS)] * 4))
def test_a_condition_is_compiled_to_what_it_means(
    condition: Condition, attributes: dict[str, str], names: tuple[str, str, str, str]
) -> None:
    document_id, name, media_type, language = names
    row = chunk(
        "c", attributes=attributes, document_id=document_id, name=name, media_type=media_type, language=language
    )
    negated = Negation(of=condition)

    assert allows(scope(where=condition), row) is holds(condition, row)
    assert allows(scope(where=negated), row) is holds(negated, row)


@given(condition=conditions, tenant=st.sampled_from(["other", "b"]).map(TenantId))
def test_no_condition_lets_another_tenant_through(condition: Condition, tenant: TenantId) -> None:
    anything = AnyOf(of=(condition, Negation(of=condition)))

    assert allows(scope(where=anything), chunk("c"))
    assert not allows(scope(where=anything, tenant=tenant), chunk("c"))


@pytest.mark.parametrize("field", ["text", "tenant", "attributes", "attributes.", ""])
def test_a_condition_on_a_field_that_is_not_on_the_list_is_refused(field: str) -> None:
    with pytest.raises(Rejected, match="cannot be filtered on: use document_id, kind"):
        scope_expression(scope(where=Comparison(field=field, comparator=Comparator.EQUAL, value="x")))


@given(text=texts, row=rows)
def test_an_exclusive_filter_lets_no_other_tenant_through_whatever_its_value(text: str, row: IndexedChunk) -> None:
    where = scope(
        Filter(field="name", operator=FilterOperator.EQ, values=(text,)),
        Filter(field=f"attributes.{text}k", operator=FilterOperator.NE, values=(text,)),
        tenant=TenantId("other"),
        principals=(text,),
    )

    assert not allows(where, row)


def test_a_row_is_denied_unless_tenant_level_and_principal_all_allow_it() -> None:
    row = chunk("c", principals=("staff",), level=1)

    assert allows(scope(principals=("staff",)), row)
    assert not allows(scope(), row)
    assert not allows(scope(principals=("staff",), levels=(0, 2)), row)
    assert not allows(scope(principals=("staff",), levels=()), row)
    assert not allows(scope(principals=("staff",), tenant=TenantId("other")), row)
    assert not allows(scope(principals=("staff",)), chunk("c", principals=()))


@given(where=scopes, data=st.data())
def test_equal_scopes_give_equal_expressions(where: Scope, data: st.DataObject) -> None:
    shuffled = Scope(
        tenant=where.tenant,
        principals=(*data.draw(st.permutations(where.principals)), *where.principals),
        levels=tuple(data.draw(st.permutations(where.levels))),
        filters=where.filters,
        left_out=where.left_out,
    )

    assert scope_expression(shuffled) == scope_expression(where)


@given(text=st.one_of(texts, surrogates))
def test_an_armoured_text_has_nothing_to_escape_and_is_restored(text: str) -> None:
    assert not set(escaped(text)) & set("\"'\\\r\n\x00\uffff")
    assert unescaped(escaped(text)) == text


@given(key=st.one_of(texts, surrogates))
def test_an_armoured_key_is_plain_ascii_and_is_restored(key: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_.%-]*", escaped_key(key))
    assert unescaped(escaped_key(key)) == key


@given(one=texts, other=texts)
def test_armour_keeps_prefixes(one: str, other: str) -> None:
    assert escaped(one + other) == escaped(one) + escaped(other)
    assert escaped(other).startswith(escaped(one)) is other.startswith(one)


@pytest.mark.parametrize("field", ["text", "tenant", "principals", "attributes", "attributes.", "name ", "level", ""])
def test_a_field_that_is_not_on_the_list_is_refused(field: str) -> None:
    with pytest.raises(Rejected, match="cannot be filtered on: use document_id, kind"):
        scope_expression(scope(Filter(field=field, operator=FilterOperator.EQ, values=("x",))))


@pytest.mark.parametrize("operator", FilterOperator)
def test_an_operator_without_the_values_it_wants_is_refused(operator: FilterOperator) -> None:
    with pytest.raises(Rejected, match="0 values"):
        scope_expression(scope(Filter(field="name", operator=operator, values=())))
    if operator not in (FilterOperator.IN, FilterOperator.NOT_IN):
        with pytest.raises(Rejected, match="2 values"):
            scope_expression(scope(Filter(field="name", operator=operator, values=("a", "b"))))


@given(key=st.text(max_size=70))
def test_ids_that_stand_in_expressions_are_words(key: str) -> None:
    if re.fullmatch(r"[\w-]{1,64}", key, re.ASCII):
        assert checked_key(key) == key
    else:
        with pytest.raises(Rejected):
            checked_key(key)
