"""One node of Apache Kafka that asks who its clients are, and knows what each may do."""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from aiokafka.errors import SaslAuthenticationFailed
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    KafkaAdminClient,
    ResourcePattern,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from pydantic import SecretStr

from freki.infra.kafka.admin import admin_options
from freki.infra.kafka.connection import probe
from freki.infra.settings import KafkaSettings
from freki.streams.wire.acls import Operation, Right
from tests.kafka.certificates import Authority, Pair
from tests.kafka.identity_provider import AUDIENCE, IdentityProvider
from tests.stack import own_topics, running_kafka

PASSWORD = "wie es euch beliebt"  # noqa: S105 - of a broker that ends with the test
_SCRAM = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
_LOGIN = "org.apache.kafka.common.security"
# The names of Kafka's documents, which the rights use, to those of the client: DescribeConfigs is DESCRIBE_CONFIGS.
_OPERATIONS = {each: ACLOperation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", each).upper()] for each in get_args(Operation)}
_RESOURCES = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP}


@dataclass(frozen=True, kw_only=True)
class Secured:
    """A broker with four users of all mechanisms but OAUTHBEARER, and how each of them reaches it."""

    plain: KafkaSettings
    """Without any login: may do everything."""
    authority: Authority
    client: Pair
    ports: Mapping[str, int]

    def mutual_tls(self, **changed: Any) -> KafkaSettings:
        """Return settings with a client certificate."""
        given: dict[str, Any] = {
            "bootstrap": f"127.0.0.1:{self.ports['MTLS']}",
            "security": "SSL",
            "ca_file": self.authority.file,
            "cert_file": self.client.certificate,
            "key_file": self.client.key,
        }
        return self._settings(given | changed)

    def sasl(self, mechanism: str, user: str = "freki", **changed: Any) -> KafkaSettings:
        """Return settings of a user over TLS."""
        given: dict[str, Any] = {
            "bootstrap": f"127.0.0.1:{self.ports['SASL']}",
            "security": "SASL_SSL",
            "sasl_mechanism": mechanism,
            "username": user,
            "password": SecretStr(PASSWORD),
            "ca_file": self.authority.file,
        }
        return self._settings(given | changed)

    def _settings(self, changed: Mapping[str, Any]) -> KafkaSettings:
        # A list of certificates that nobody has is read when a client is made, not here.
        return KafkaSettings.model_validate({**dict(self.plain), **changed})

    async def add_user(self, user: str, rights: Iterable[Right]) -> KafkaSettings:
        """Make a user with these rights and no others."""
        with closing(KafkaAdminClient(**admin_options(self.plain))) as admin:
            made = admin.create_acls([each for right in rights for each in _acls(user, right)])
            _add_credentials(admin, user, "SCRAM-SHA-512")
        assert not made["failed"]
        settings = self.sasl("SCRAM-SHA-512", user)
        await _known(settings)
        return settings

    async def change_password(self, settings: KafkaSettings) -> None:
        """Give the user of these settings another password, and wait until the broker refuses theirs."""
        assert settings.username is not None
        with closing(KafkaAdminClient(**admin_options(self.plain))) as admin:
            _add_credentials(admin, settings.username, "SCRAM-SHA-512", password=f"{PASSWORD}?")
        with suppress(SaslAuthenticationFailed):
            async with asyncio.timeout(settings.delivery_timeout_s):
                while True:
                    await probe(settings)


@contextmanager
def secured_kafka(folder: Path, provider: IdentityProvider) -> Iterator[Secured]:
    """Run it; it trusts tokens of that provider."""
    authority = Authority(folder, "authority")
    broker, client = authority.pair("broker"), authority.pair("client")
    listeners: Mapping[str, Any] = {"MTLS": "SSL", "SASL": "SASL_SSL", "SHORT": "SASL_SSL"}
    properties = _properties(authority, broker, provider)
    with running_kafka(folder, properties=properties, listeners=listeners) as node:
        plain = KafkaSettings(bootstrap=f"127.0.0.1:{node.port}", partitions=2, delivery_timeout_s=10.0)
        with closing(KafkaAdminClient(**admin_options(plain))) as admin:
            _add_credentials(admin, "freki", *_SCRAM)
        yield Secured(
            plain=own_topics(plain),
            authority=authority,
            client=client,
            ports={each.name: each.port for each in node.listeners},
        )


def _properties(authority: Authority, broker: Pair, provider: IdentityProvider) -> dict[str, str]:
    sasl = "listener.name.sasl"
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(broker.both),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.file),
        "listener.name.mtls.ssl.client.auth": "required",
        f"{sasl}.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER",
        f"{sasl}.scram-sha-256.sasl.jaas.config": f"{_LOGIN}.scram.ScramLoginModule required;",
        f"{sasl}.scram-sha-512.sasl.jaas.config": f"{_LOGIN}.scram.ScramLoginModule required;",
        f"{sasl}.plain.sasl.jaas.config": f'{_LOGIN}.plain.PlainLoginModule required user_freki="{PASSWORD}";',
        f"{sasl}.oauthbearer.sasl.jaas.config": f"{_LOGIN}.oauthbearer.OAuthBearerLoginModule required;",
        f"{sasl}.oauthbearer.sasl.server.callback.handler.class": (
            f"{_LOGIN}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        "sasl.oauthbearer.jwks.endpoint.url": f"{provider.url}/keys",
        "sasl.oauthbearer.expected.issuer": provider.url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        # As managed clusters do: whoever logged in is sent away after a while, and has to log in again.
        "listener.name.short.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.short.scram-sha-512.sasl.jaas.config": f"{_LOGIN}.scram.ScramLoginModule required;",
        "listener.name.short.scram-sha-512.connections.max.reauth.ms": "1000",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # The broker itself and the tests' own administration come without a login.
        "super.users": "User:ANONYMOUS;User:CN=client;User:CN=locked;User:freki",
    }


def _add_credentials(admin: KafkaAdminClient, user: str, *mechanisms: str, password: str = PASSWORD) -> None:
    # Kafka takes one change of a user in a request.
    for mechanism in mechanisms:
        refused = admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, _SCRAM[mechanism], password)])
        assert refused == {user: None}


async def _known(settings: KafkaSettings) -> None:
    """Wait until the broker knows a user, and with it the rights that were written before."""
    async with asyncio.timeout(settings.delivery_timeout_s):
        while True:
            with suppress(SaslAuthenticationFailed):
                return await probe(settings)
            await asyncio.sleep(0.01)


def _acls(user: str, right: Right) -> Iterator[ACL]:
    pattern = ResourcePattern(_RESOURCES[right.resource], right.name)
    for operation in right.operations:
        yield ACL(f"User:{user}", "*", _OPERATIONS[operation], ACLPermissionType.ALLOW, pattern)
