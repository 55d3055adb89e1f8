"""Errors of records that can never be processed.

OperatorError              an invalid record: it becomes a dead letter with this message
├── InvalidChange          a field of a document change violates its contract
├── OverLimit              a limit of its tenant does not allow a document change
├── InfectedContent        a scanner found malware in the content
├── UnreadableContent      the content does not match its declared type
│   └── NoText             the content is pictures of text
├── InvalidEnvelope        a record of a foreign topic cannot be mapped to a document change
├── InvalidQuery           a field of a query or a judgement violates its contract
└── InvalidRequest         a field of a request for an erasure, a hold or an objection violates its contract
"""


class OperatorError(Exception):
    """The record can never be processed; the message names the field and the fix."""


class InvalidChange(OperatorError):
    """A document change violates its contract."""


class OverLimit(OperatorError):
    """A limit of its tenant does not allow a document change."""


class InfectedContent(OperatorError):
    """A scanner found malware in the content."""


class UnreadableContent(OperatorError):
    """The content does not match its declared type."""


class NoText(UnreadableContent):
    """The content is pictures, which a recogniser of text (OCR) may read."""


class InvalidEnvelope(OperatorError):
    """A foreign record lacks what the mapping of its topic requires."""


class InvalidQuery(OperatorError):
    """A query or a judgement violates its contract."""


class InvalidRequest(OperatorError):
    """A request for an erasure, a hold or an objection violates its contract."""
