import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.errors import InvalidQuery
from freki.operators.validate_query import parse_condition
from freki.operators.validate_query.conditions import MAX_COMPARISONS, MAX_CONDITION_CHARS, MAX_DEPTH
from freki.schemas.attribute_values import TimeSpan, number_of, time_of
from freki.schemas.conditions import AllOf, AnyOf, Comparator, Comparison, Condition, Negation, fields_of
from tests.conditions import conditions, written
from tests.contract.index_records import chunk
from tests.filter_model import holds, milliseconds

DAY = 86_400_000


def compared(field: str, comparator: Comparator, value: object) -> Comparison:
    return Comparison(field=field, comparator=comparator, value=value)  # type: ignore[arg-type]


def equal(field: str, value: object) -> Comparison:
    return compared(field, Comparator.EQUAL, value)


@given(condition=conditions)
def test_what_is_written_is_parsed_as_it_was_meant(condition: Condition) -> None:
    assert parse_condition(written(condition)) == condition


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("language = de", equal("language", "de")),
        ("language=de", equal("language", "de")),
        ("language == 'de'", equal("language", "de")),
        ('language = "de"', equal("language", "de")),
        ("language != de", Negation(of=equal("language", "de"))),
        ("language <> de", Negation(of=equal("language", "de"))),
        ("media_type=text/markdown", equal("media_type", "text/markdown")),
        ("name^=Hand", compared("name", Comparator.STARTS_WITH, "Hand")),
        ("name starts with 'Hand'", compared("name", Comparator.STARTS_WITH, "Hand")),
        ("name NOT STARTS WITH 'Hand'", Negation(of=compared("name", Comparator.STARTS_WITH, "Hand"))),
        ("name = 2024", equal("name", "2024")),
        ("attribute.year = 2024", equal("attributes.year", 2024.0)),
        ("attributes.year = '2024'", equal("attributes.year", "2024")),
        ("attribute.year STARTS WITH 20", compared("attributes.year", Comparator.STARTS_WITH, "20")),
        ("attribute.year < -1.5", compared("attributes.year", Comparator.LESS, -1.5)),
        ("attribute.a.b-c = x", equal("attributes.a.b-c", "x")),
        ('attribute."a ""b""" EXISTS', compared('attributes.a "b"', Comparator.EXISTS, None)),
        ("attribute.day = 1970-01-02", equal("attributes.day", TimeSpan(start=DAY, end=2 * DAY))),
        ("language IN (de, 'en')", AnyOf(of=(equal("language", "de"), equal("language", "en")))),
        ("language IN (de)", equal("language", "de")),
        ("language NOT IN (de, en)", Negation(of=AnyOf(of=(equal("language", "de"), equal("language", "en"))))),
        (
            "attribute.n BETWEEN 1 AND 2",
            AllOf(
                of=(
                    compared("attributes.n", Comparator.AT_LEAST, 1.0),
                    compared("attributes.n", Comparator.AT_MOST, 2.0),
                )
            ),
        ),
        (
            "kind = LIST OR kind = TABLE AND NOT language = de",
            AnyOf(
                of=(
                    equal("kind", "LIST"),
                    AllOf(of=(equal("kind", "TABLE"), Negation(of=equal("language", "de")))),
                )
            ),
        ),
        ("name = 'O''Hara'", equal("name", "O'Hara")),
        ("name = 'AND'", equal("name", "AND")),
    ],
)
def test_each_form_has_its_meaning(text: str, meant: Condition) -> None:
    assert parse_condition(text) == meant


@pytest.mark.parametrize(
    ("text", "at", "problem"),
    [
        ("", 1, "a field was expected, not the end; use document_id"),
        ("name", 5, "=, !=, <, <=, >, >=, IN, STARTS WITH, BETWEEN or EXISTS was expected, not the end"),
        ("colour = red", 1, "'colour' cannot be filtered on; use document_id, name"),
        ("occurred_at >= 2026-01-01", 1, "publish a date as an attribute"),
        ("attribute. = red", 1, "the key of an attribute has 1 to"),
        ("name = ", 8, "a value was expected, not the end"),
        ("name = AND", 8, "put it in quotes if it is one"),
        (
            "name = Mein Handbuch",
            13,
            "AND, OR or the end was expected, not 'Handbuch'; put a text with spaces in quotes",
        ),
        ("(name = a", 10, ") was expected, not the end"),
        ("name = a)", 9, "AND, OR or the end was expected, not ')'"),
        ("name = 'a", 8, "the quote ' is not closed"),
        ("name = a & language = de", 10, "AND, OR or the end was expected"),
        ("name ! a", 6, "'!' has no meaning here"),
        ("name > a", 8, "name is a text, which > does not compare"),
        ("attribute.year > 'x'", 18, "> compares numbers such as 12.5 and dates such as 2026-01-31"),
        ("attribute.day >= 2026-02-30", 18, "'2026-02-30' is neither"),
        ("attribute.year BETWEEN 1 OR 2", 26, "AND was expected, not 'OR'"),
        ("language IN (de en)", 17, "a comma or ) was expected, not 'en'"),
        ("language IN ()", 14, "a value was expected, not ')'"),
        ("language NOT = de", 14, "IN, STARTS WITH or BETWEEN was expected, not '='"),
        ("name EXISTS", 6, "every document has name; EXISTS is for attributes"),
        ("kind = CHAPTER", 8, "'CHAPTER' is no kind of chunk; use PROSE"),
        ("name = 'a\nb'", 8, "control character U+000A"),
        ("NOT", 4, "a field was expected, not the end"),
        ("name = a AND", 13, "a field was expected, not the end"),
    ],
)
def test_an_error_names_the_character_and_the_fix(text: str, at: int, problem: str) -> None:
    with pytest.raises(InvalidQuery) as raised:
        parse_condition(text)

    assert str(raised.value).startswith(f"where: at character {at}: ")
    assert problem in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "(" * (MAX_DEPTH + 1) + "name = a" + ")" * (MAX_DEPTH + 1),
        "NOT " * (MAX_DEPTH + 1) + "name = a",
        f"name IN ({','.join('a' * (MAX_COMPARISONS + 1))})",
        f"name = {'a' * MAX_CONDITION_CHARS}",
        f"name = {'a' * 2000}",
        "NOT (" * 4000,
    ],
)
def test_a_condition_has_limits(text: str) -> None:
    with pytest.raises(InvalidQuery, match=r"more than|deep"):
        parse_condition(text)


@given(text=st.text("ab '\"()=<>!,.^-2\n ANDORNT", max_size=40))
def test_any_text_is_parsed_or_refused_at_one_of_its_characters(text: str) -> None:
    try:
        parse_condition(text)
    except InvalidQuery as error:
        at = int(str(error).split("at character ")[1].split(":")[0])
        assert 1 <= at <= len(text) + 1


def test_the_fields_of_a_condition_are_named_once_each() -> None:
    assert fields_of(parse_condition("name = a OR (NOT language = de AND name = b)")) == ["name", "language"]


@pytest.mark.parametrize(
    ("text", "number"),
    [("12", 12.0), ("-0.5", -0.5), ("+3", 3.0), ("007", 7.0), ("1e3", None), ("1,5", None), ("", None), ("٣", None)],
)
def test_numbers_are_digits_with_a_point(text: str, number: float | None) -> None:
    assert number_of(text) == number


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("2026-01-31", DAY),
        ("31.1.2026", DAY),
        ("2026-01-31T10:30", 60_000),
        ("2026-01-31T10:30:15", 1_000),
        ("2026-01-31T10:30:15.250+02:00", 1),
    ],
)
def test_a_time_lasts_as_long_as_what_it_names(text: str, length: int) -> None:
    span = time_of(text)

    assert span is not None
    assert (span.start, span.end - span.start) == (milliseconds(text), length)


@pytest.mark.parametrize(
    "text", ["2026-02-30", "2026-13-01", "0000-01-01", "2026-1-1", "01.01.26", "2026", "10:30", ""]
)
def test_what_no_calendar_has_is_no_time(text: str) -> None:
    assert time_of(text) is None


def test_a_missing_attribute_meets_no_comparison_and_every_negation() -> None:
    row = chunk("c", attributes={"note": "soon"})

    for text in (
        "attribute.day < 2026-01-01",
        "attribute.day >= 2026-01-01",
        "attribute.note > 1",
        "attribute.day = x",
    ):
        assert not holds(parse_condition(text), row)
        assert holds(parse_condition(f"NOT {text}"), row)
