from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.check_claims import ClaimRules, check_claims
from freki.schemas import Timestamp
from freki.schemas.identity import Identity, RefusalReason
from tests.issuer import AUDIENCE, ISSUER, RULES

NOW_S = 1_800_000_000
NOW = Timestamp(NOW_S * 1000)
GOOD = {"iss": ISSUER, "aud": AUDIENCE, "exp": NOW_S + 60, "iat": NOW_S, "sub": "ada", "tenant": "t"}
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def judged(rules: dict[str, Any] | None = None, **claims: Any) -> Identity | RefusalReason:
    given_claims = {name: value for name, value in {**GOOD, **claims}.items() if value is not ...}
    return check_claims(given_claims, ClaimRules(**{**RULES, **(rules or {})}), NOW)


def test_a_token_in_order_says_who_asks() -> None:
    identity = judged(groups=["hr", "board", "hr"], jti="7")

    assert isinstance(identity, Identity)
    assert identity.tenant == "t"
    assert identity.principals == ("ada", "board", "hr")
    assert (identity.subject, identity.token_id) == ("ada", "7")


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"iss": "https://other.example.org"}, RefusalReason.ISSUER),
        ({"iss": ...}, RefusalReason.ISSUER),
        ({"iss": [ISSUER]}, RefusalReason.ISSUER),
        ({"aud": "another"}, RefusalReason.AUDIENCE),
        ({"aud": ...}, RefusalReason.AUDIENCE),
        ({"aud": ["another", "third"]}, RefusalReason.AUDIENCE),
        ({"aud": f"{AUDIENCE}x"}, RefusalReason.AUDIENCE),
        ({"aud": {AUDIENCE: 1}}, RefusalReason.AUDIENCE),
        ({"exp": NOW_S - 30}, RefusalReason.EXPIRED),
        ({"exp": ...}, RefusalReason.MALFORMED),
        ({"exp": "never"}, RefusalReason.MALFORMED),
        ({"exp": True}, RefusalReason.MALFORMED),
        ({"exp": float("inf")}, RefusalReason.MALFORMED),
        ({"exp": float("nan")}, RefusalReason.MALFORMED),
        ({"exp": 10**400}, RefusalReason.MALFORMED),
        ({"nbf": NOW_S + 31}, RefusalReason.NOT_YET_VALID),
        ({"iat": NOW_S + 31}, RefusalReason.NOT_YET_VALID),
        ({"tenant": ...}, RefusalReason.INCOMPLETE),
        ({"tenant": ""}, RefusalReason.INCOMPLETE),
        ({"tenant": ["t"]}, RefusalReason.INCOMPLETE),
        ({"tenant": "t\nu"}, RefusalReason.INCOMPLETE),
        ({"tenant": "t/u"}, RefusalReason.INCOMPLETE),
        ({"sub": ...}, RefusalReason.INCOMPLETE),
        ({"sub": "x" * 129}, RefusalReason.INCOMPLETE),
        ({"groups": [1]}, RefusalReason.MALFORMED),
        ({"groups": {"hr": True}}, RefusalReason.MALFORMED),
        ({"jti": 7}, RefusalReason.MALFORMED),
    ],
)
def test_a_token_that_is_not_in_order_is_refused(claims: dict[str, Any], reason: RefusalReason) -> None:
    assert judged(**claims) is reason


def test_the_audience_may_be_one_of_several() -> None:
    assert isinstance(judged(aud=["another", AUDIENCE]), Identity)


def test_clocks_may_differ_by_the_leeway() -> None:
    assert isinstance(judged(exp=NOW_S - 29), Identity)
    assert isinstance(judged(nbf=NOW_S + 30, iat=NOW_S + 30), Identity)
    assert judged({"leeway_s": 0.0}, exp=NOW_S) is RefusalReason.EXPIRED


def test_with_a_maximum_age_a_token_says_when_it_was_issued() -> None:
    assert isinstance(judged({"max_age_s": 10.0}, iat=NOW_S - 39), Identity)
    assert judged({"max_age_s": 10.0}, iat=NOW_S - 40) is RefusalReason.TOO_OLD
    assert judged({"max_age_s": 10.0}, iat=...) is RefusalReason.TOO_OLD


def test_a_claim_may_stand_deeper() -> None:
    identity = judged(
        {"groups": "/realm_access/roles", "tenant": "/org/a~1b"}, realm_access={"roles": ["hr"]}, org={"a/b": "u"}
    )

    assert isinstance(identity, Identity)
    assert (identity.tenant, identity.principals) == ("u", ("ada", "hr"))


@given(claims=st.dictionaries(st.sampled_from([*GOOD, "nbf", "groups", "jti"]), JSON))
def test_whatever_a_token_claims_it_is_judged_and_names_only_what_it_says(claims: dict[str, Any]) -> None:
    identity = judged(**claims)

    if isinstance(identity, Identity):
        said = {**GOOD, **claims}
        groups = said.get("groups") or []
        assert identity.tenant == said["tenant"]
        assert "/" not in identity.tenant
        assert set(identity.principals) == {said["sub"], *(groups if isinstance(groups, list) else [groups])}
        assert said["exp"] + 30 > NOW_S
        assert said["iss"] == ISSUER
