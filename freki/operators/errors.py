"""Why a record can never be processed.

OperatorError              the record is bad: it goes to the dead letters, with this message
├── InvalidChange          a field of a document change breaks its contract
├── UnreadableContent      the content cannot be read as what it claims to be
├── InvalidEnvelope        a record of somebody else's topic cannot be mapped to a document change
└── InvalidQuery           a field of a query breaks its contract
"""


class OperatorError(Exception):
    """The record can never succeed; the message names the field and the fix."""


class InvalidChange(OperatorError):
    """A document change breaks its contract."""


class UnreadableContent(OperatorError):
    """The content is not what it claims to be."""


class InvalidEnvelope(OperatorError):
    """A foreign record does not hold what the mapping of its topic asks for."""


class InvalidQuery(OperatorError):
    """A query breaks its contract."""
