"""Connection options of all Kafka clients, and translation of their errors."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiokafka.errors
from aiokafka.conn import create_conn, get_ip_port_afi

from freki.client.kafka import without_code
from freki.client.wakeups import make_directory
from freki.infra.kafka.tokens import ForAiokafka, NoToken, Tokens
from freki.infra.settings import KafkaSettings
from freki.schemas.errors import InfraError, Misconfigured, Rejected, Unavailable

REQUEST_MARGIN_BYTES = 64 * 1024
"""Size reserved for headers and framing around the largest record; dead letters have the largest headers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerProfile:
    """Timing and capabilities in which the broker of the local stack differs from Apache Kafka."""

    session_timeout_s: float
    heartbeat_s: float
    rebalance_timeout_s: float
    """Time that the broker waits for group members in a rebalance."""
    hand_over_s: float
    """Time to finish work in flight when partitions are revoked; the group waits meanwhile."""
    fetch_wait_ms: int
    """Maximum wait of a fetch; the local broker sleeps half of it even when records arrive (`client/wakeups.py`
    avoids that where it can), Kafka answers at once."""
    keeps_leaders: bool
    """Whether a group waits for a leader that left it while another member joined."""
    idempotent: bool
    """Whether the producer is idempotent; the local broker does not support aiokafka's request for a producer id."""


PROFILES: Mapping[str, BrokerProfile] = {
    # The local broker completes a join after half of the session timeout, whether or not the other members rejoined;
    # they learn of it from their next heartbeat.
    "local": BrokerProfile(
        session_timeout_s=2.0,
        heartbeat_s=0.5,
        rebalance_timeout_s=60.0,
        hand_over_s=0.4,
        fetch_wait_ms=20,
        keeps_leaders=True,
        idempotent=False,
    ),
    # Kafka refuses session timeouts below 6 s unless its own settings are changed. Members learn by a heartbeat that
    # others came or left: until then the partitions of those stand still.
    "kafka": BrokerProfile(
        session_timeout_s=10.0,
        heartbeat_s=1.0,
        rebalance_timeout_s=60.0,
        hand_over_s=8.0,
        fetch_wait_ms=500,
        keeps_leaders=False,
        idempotent=True,
    ),
}


def wakeups_of(settings: KafkaSettings) -> Path | None:
    """Return the directory of wake-ups between clients of a local broker; None for other brokers."""
    return make_directory(settings.bootstrap) if settings.profile == "local" else None


def ssl_context(settings: KafkaSettings) -> ssl.SSLContext | None:
    """Return the TLS context of the settings; None without TLS."""
    if settings.security not in {"SSL", "SASL_SSL"}:
        return None
    try:
        context = ssl.create_default_context(cafile=settings.ca_file)
        if settings.cert_file is not None:
            context.load_cert_chain(settings.cert_file, settings.key_file, lambda: _key_password(settings))
    except (OSError, ssl.SSLError) as error:
        raise Misconfigured(
            "FREKI_KAFKA__CA_FILE, FREKI_KAFKA__CERT_FILE or FREKI_KAFKA__KEY_FILE cannot be read, or"
            f" FREKI_KAFKA__KEY_PASSWORD is not that of the key: {error}"
        ) from error
    return context


def _key_password(settings: KafkaSettings) -> str:
    # Without a password, OpenSSL prompts on the terminal.
    return settings.key_password.get_secret_value() if settings.key_password else ""


def credentials(settings: KafkaSettings) -> tuple[str, str] | None:
    """Return user name and password; None without SASL or with OAUTHBEARER."""
    if not settings.security.startswith("SASL") or settings.sasl_mechanism == "OAUTHBEARER":
        return None
    if settings.username is None or settings.password is None:
        raise Misconfigured(
            f"FREKI_KAFKA__SECURITY={settings.security} needs FREKI_KAFKA__USERNAME and FREKI_KAFKA__PASSWORD"
        )
    return settings.username, settings.password.get_secret_value()


def tokens(settings: KafkaSettings) -> Tokens | None:
    """Return the source of OAUTHBEARER tokens; None for other mechanisms."""
    if not settings.security.startswith("SASL") or settings.sasl_mechanism != "OAUTHBEARER":
        return None
    return Tokens(settings.oauth)


def client_options(settings: KafkaSettings) -> dict[str, object]:
    """Return the keyword arguments of aiokafka's clients."""
    return options_of_clients(settings, ForAiokafka)


def options_of_clients(settings: KafkaSettings, provider: Callable[[Tokens], object]) -> dict[str, object]:
    """Return the keyword arguments that clients of aiokafka and kafka-python have in common.

    provider: makes what gives the tokens of OAUTHBEARER to the library.
    """
    options: dict[str, object] = {
        "bootstrap_servers": settings.bootstrap.split(","),
        "client_id": "freki",
        "security_protocol": settings.security,
        "ssl_context": ssl_context(settings),
    }
    login = credentials(settings)
    if login is not None:
        username, password = login
        options |= {
            "sasl_mechanism": settings.sasl_mechanism,
            "sasl_plain_username": username,
            "sasl_plain_password": password,
        }
    source = tokens(settings)
    if source is not None:
        options |= {"sasl_mechanism": settings.sasl_mechanism, "sasl_oauth_token_provider": provider(source)}
    return options


async def probe(settings: KafkaSettings) -> None:
    """Connect to one of the servers; raise the untranslated error of the last one if all fail.

    aiokafka only reports that it found no broker, and kafka-python leaks a thread and a socket.
    """
    options = client_options(settings)
    del options["bootstrap_servers"]
    servers = settings.bootstrap.split(",")
    async with asyncio.timeout(settings.delivery_timeout_s):
        for number, server in enumerate(servers, start=1):
            host, port, _ = get_ip_port_afi(server)
            try:
                connection = await create_conn(host, port, **options)
            except (OSError, aiokafka.errors.KafkaError):
                if number == len(servers):
                    raise
            else:
                await connection.close()
                return


@asynccontextmanager
async def connecting(action: str, settings: KafkaSettings) -> AsyncIterator[None]:
    """Translate errors; where aiokafka found no broker, probe for the reason."""
    now = asyncio.get_running_loop().time
    began = now()
    with translated(action, settings):
        try:
            yield
        except aiokafka.errors.KafkaConnectionError as error:
            if now() - began >= settings.delivery_timeout_s:
                # The broker is silent: a probe would wait as long once more, and tell no other reason.
                raise TimeoutError from error
            await probe(settings)
            raise


@contextmanager
def translated(action: str, settings: KafkaSettings, others: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Translate errors of aiokafka, and others, keeping the original as the cause."""
    try:
        yield
    except (
        aiokafka.errors.KafkaError,
        aiokafka.errors.ConsumerStoppedError,
        aiokafka.errors.IllegalOperation,
        OSError,
        *others,
    ) as error:
        raise translate(action, error, settings) from error


def translate(action: str, error: Exception, settings: KafkaSettings) -> InfraError:
    """Return the error of `schemas.errors` for one of aiokafka or kafka-python.

    Both libraries name their classes after the error codes of the protocol, so classes are matched by name.
    """
    if isinstance(error, NoToken):
        return type(error.reason)(f"{action}: {error.reason}")
    name = type(error).__name__.removesuffix("Error").removesuffix("Exception")
    reason = f"{action}: {without_code(error) or name}"
    if name in _TOO_LARGE:
        # The client names a setting of its own, the broker none.
        return Rejected(
            f"{action}: the record is larger than FREKI_KAFKA__MAX_MESSAGE_BYTES={settings.max_message_bytes}, or than "
            "its topic allows (max.message.bytes)"
        )
    if name in _REJECTED:
        return Rejected(reason)
    if (failure := _tls_failure(error)) is not None:
        return Misconfigured(f"{action}: {failure}; {_advice_on_tls(failure, settings)}")
    for names, advice in _ADVICE.items():
        if name in names:
            return Misconfigured(f"{reason}; {advice}")
    return Unavailable(f"{reason}; {_advice_on_outage(name, settings)}")


def _advice_on_outage(name: str, settings: KafkaSettings) -> str:
    broker = f"FREKI_KAFKA__BOOTSTRAP={settings.bootstrap}"
    if name == "Unknown" and settings.profile != "local":
        # All that the local broker says of requests that it does not know, such as those of idempotent producers.
        return f"{broker} could not do it: the broker of `freki up` without `--kafka` needs FREKI_KAFKA__PROFILE=local"
    return f"is Kafka up at {broker}, and does it speak FREKI_KAFKA__SECURITY={settings.security} there?"


def _tls_failure(error: BaseException | None) -> ssl.SSLError | None:
    """Return the TLS failure that caused an error, if any; a broken connection does not count."""
    while error is not None:
        if isinstance(error, ssl.SSLError) and not isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
            return error
        error = error.__cause__
    return None


def _advice_on_tls(failure: ssl.SSLError, settings: KafkaSettings) -> str:
    if isinstance(failure, ssl.SSLCertVerificationError):
        return (
            "FREKI_KAFKA__CA_FILE must hold the authority that signed the brokers' certificates, and these must be for"
            f" the hosts of FREKI_KAFKA__BOOTSTRAP={settings.bootstrap}"
        )
    return (
        f"check FREKI_KAFKA__SECURITY={settings.security}, and FREKI_KAFKA__CERT_FILE and FREKI_KAFKA__KEY_FILE, a"
        " certificate that the brokers trust"
    )


class InvalidRecordError(aiokafka.errors.BrokerResponseError):  # type: ignore[misc]
    """The broker rejects a record as invalid, such as one without a key on a compacted topic."""

    errno = 87
    message = "INVALID_RECORD"

    def __str__(self) -> str:
        """Return a description in place of the error code."""
        return "the broker refuses a record of this batch, as a compacted topic does one without a key"


# aiokafka knows error codes up to 79, and reports all others as unknown.
aiokafka.errors.kafka_errors.setdefault(InvalidRecordError.errno, InvalidRecordError)

_TOO_LARGE = frozenset({"MessageSizeTooLarge", "RecordListTooLarge", "RecordTooLarge"})
_REJECTED = frozenset({"InvalidTimestamp", "InvalidRecord", "PolicyViolation", "OffsetMetadataTooLarge"})
_MISSING_TOPIC = frozenset({"UnknownTopicOrPartition", "UnknownTopicId"})
_LOGIN_REFUSED = frozenset(
    {
        "AuthenticationFailed",
        "AuthenticationMethodNotSupported",
        "IllegalSaslState",
        "SaslAuthenticationFailed",
        "SecurityDisabled",
        "UnacceptableCredential",
        "UnsupportedSaslMechanism",
    }
)
_NOT_ALLOWED = frozenset(
    {
        "Authorization",
        "DelegationTokenAuthorizationFailed",
        "GroupAuthorizationFailed",
        "TopicAuthorizationFailed",
        "TransactionalIdAuthorizationFailed",
    }
)
_WRONG_SETTING = frozenset(
    {
        "IllegalArgument",
        "IncompatibleBrokerVersion",
        "InvalidConfiguration",
        "InvalidGroupId",
        "InvalidPartitions",
        "InvalidReplicationAssignment",
        "InvalidReplicationFactor",
        "InvalidRequiredAcks",
        "InvalidSessionTimeout",
        "KafkaConfiguration",
        "UnrecognizedBrokerVersion",
        "UnsupportedCodec",
        "UnsupportedCompressionType",
        "UnsupportedForMessageFormat",
        "UnsupportedVersion",
    }
)
_USER = "the user of FREKI_KAFKA__USERNAME, or of the certificate in FREKI_KAFKA__CERT_FILE,"
_RIGHTS = "`freki topics acls` lists what each part of Freki needs"
_ADVICE: Mapping[frozenset[str], str] = {
    _MISSING_TOPIC: "create the topics with `freki topics apply`, or correct FREKI_KAFKA__TOPIC_PREFIX",
    frozenset({"InvalidTopic"}): (
        "names of topics consist of letters, digits, dots, underscores and hyphens, and differ in more than dots and"
        " underscores: change FREKI_KAFKA__TOPIC_PREFIX"
    ),
    _LOGIN_REFUSED: (
        "check FREKI_KAFKA__SECURITY, FREKI_KAFKA__SASL_MECHANISM, FREKI_KAFKA__USERNAME and FREKI_KAFKA__PASSWORD, or"
        " with OAUTHBEARER what FREKI_KAFKA__OAUTH__… says of the token"
    ),
    _NOT_ALLOWED: f"{_USER} lacks a right: {_RIGHTS}",
    # What Kafka says to a producer at its start; no other request of Freki needs a right on the cluster.
    frozenset({"ClusterAuthorizationFailed"}): f"{_USER} may write to no topic: {_RIGHTS}",
    _WRONG_SETTING: "check the FREKI_KAFKA__ settings, FREKI_KAFKA__PROFILE above all",
}
