"""Where the broker is, and how topics are called there."""

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from freki.schemas.errors import Misconfigured
from freki.schemas.names import record

_LEGAL_PART = re.compile(r"[a-zA-Z0-9._-]{1,200}")


@record
class Broker:
    """Connection to the broker, and names of topics."""

    bootstrap: str = "127.0.0.1:9092"
    """host:port of the brokers, separated by commas; `freki status` shows that of a local stack."""
    prefix: str = "freki"
    """First part of every topic name."""
    version: int = 1
    """Last part of every topic name."""
    generation: str = "g1"
    """Generation of the index whose receipts count; queries and answers are the same for all."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """More arguments of aiokafka's clients, for TLS and SASL: `security_protocol`, `ssl_context`, `sasl_…`."""
    idempotent: bool = True
    """Whether the broker knows idempotent producers; that of `freki up` without `--kafka` does not."""
    timeout_s: float = 30.0
    """Longest wait for the broker to answer, in seconds."""
    max_message_bytes: int = 5_000_000
    """Largest record, FREKI_KAFKA__MAX_MESSAGE_BYTES of the workers."""
    inline_bytes: int = 600_000
    """Largest content of a document that travels in its record; FREKI_CLAIMS__INLINE_BYTES."""
    fetch_wait_ms: int = 100
    """Longest wait of the broker for new records before it answers that there are none."""

    def __post_init__(self) -> None:
        if not self.bootstrap.strip():
            raise Misconfigured("bootstrap is empty: name the broker as host:port")
        if not _LEGAL_PART.fullmatch(self.prefix):
            raise Misconfigured(f"prefix {self.prefix!r} is no name of topics: use letters, digits, dots and hyphens")

    def topic(self, name: str) -> str:
        """Return the full name of a topic; name: its middle part, such as `documents`."""
        own = f".{self.generation}" if name == "outcomes" and self.generation != "g1" else ""
        return f"{self.prefix}.{name}.v{self.version}{own}"
