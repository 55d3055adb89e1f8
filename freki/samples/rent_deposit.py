"""Rent deposits: how much a landlord may take, and what interest the tenant gets back."""

from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_UP, Decimal

MAX_MONTHS = 3
"""Most months of net rent that a deposit may be (section 551 BGB)."""
INSTALMENTS = 3
"""The tenant may pay the deposit in this many equal monthly parts."""
CENT = Decimal("0.01")


class DepositTooHigh(ValueError):
    """The deposit is more than the law allows."""


@dataclass(frozen=True)
class Deposit:
    """Money that a tenant leaves with the landlord until the tenancy ends."""

    net_rent: Decimal
    """Monthly rent without operating costs, in EUR."""
    amount: Decimal
    paid_on: date

    def check(self) -> None:
        """Raise DepositTooHigh for more than three months of net rent."""
        limit = MAX_MONTHS * self.net_rent
        if self.amount > limit:
            raise DepositTooHigh(f"a deposit of {self.amount} EUR is above {limit} EUR, three months of net rent")

    def instalments(self) -> list[Decimal]:
        """Split the amount into three monthly parts; the last one takes the rounding."""
        part = (self.amount / INSTALMENTS).quantize(CENT, ROUND_HALF_UP)
        return [part, part, self.amount - 2 * part]


def interest(deposit: Deposit, rate: Decimal, until: date) -> Decimal:
    """Return the interest since payment, compounded yearly, as for a savings account with three months' notice."""
    years = until.year - deposit.paid_on.year
    if (until.month, until.day) < (deposit.paid_on.month, deposit.paid_on.day):
        years -= 1
    grown = deposit.amount * (1 + rate) ** years
    return (grown - deposit.amount).quantize(CENT, ROUND_HALF_UP)


def refund(deposit: Deposit, rate: Decimal, until: date, damages: Decimal = Decimal(0)) -> Decimal:
    """Return what the tenant gets back: deposit and interest, less proven damages, never below zero."""
    return max(deposit.amount + interest(deposit, rate, until) - damages, Decimal(0))
