from hypothesis import given
from hypothesis import strategies as st

from freki.operators.limit import exceeded
from freki.schemas.limits import LimitKind, TenantLimits, TenantUse

AMOUNTS = st.integers(0, 5)
USES = st.builds(TenantUse, documents=AMOUNTS, characters=AMOUNTS, published_bytes=AMOUNTS, tokens=AMOUNTS)
LIMITS = st.builds(
    TenantLimits,
    documents=st.none() | AMOUNTS,
    characters=st.none() | AMOUNTS,
    published_bytes_per_day=st.none() | AMOUNTS,
    embedded_tokens_per_day=st.none() | AMOUNTS,
)


def pairs(limits: TenantLimits, use: TenantUse) -> list[tuple[int | None, int]]:
    return [
        (limits.documents, use.documents),
        (limits.characters, use.characters),
        (limits.published_bytes_per_day, use.published_bytes),
        (limits.embedded_tokens_per_day, use.tokens),
    ]


@given(LIMITS, USES, USES)
def test_what_is_let_through_stays_within_each_limit_that_it_uses(
    limits: TenantLimits, used: TenantUse, more: TenantUse
) -> None:
    fits = all(
        most is None or added == 0 or before + added <= most
        for (most, before), (_, added) in zip(pairs(limits, used), pairs(limits, more), strict=True)
    )

    assert (exceeded(limits, used, more) is None) == fits


def test_the_first_limit_is_told_with_its_numbers() -> None:
    limits = TenantLimits(documents=3, characters=10)

    excess = exceeded(limits, TenantUse(documents=3, characters=9), TenantUse(documents=1, characters=5))

    assert excess == (LimitKind.DOCUMENTS, 3, 3, 1)


def test_a_tenant_above_a_lowered_limit_may_shrink_its_documents() -> None:
    limits = TenantLimits(documents=1, characters=10)

    assert exceeded(limits, TenantUse(documents=5, characters=50), TenantUse(documents=0, characters=-3)) is None
