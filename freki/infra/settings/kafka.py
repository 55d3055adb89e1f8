"""Settings of the broker and of the schema registry."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator

from freki.infra.settings.names import ExactName
from freki.infra.settings.section import SecretFile, ServerUrl, SettingsSection, check_command, is_address

_PLACES = ("token_url", "token_file", "token_command")
"""Settings of which one says where tokens come from."""


class OAuthSettings(SettingsSection):
    """Source of tokens for SASL OAUTHBEARER: an identity provider, a file, or a command."""

    token_url: ServerUrl | None = Field(
        default=None, description="With OAUTHBEARER: where the identity provider gives tokens for client credentials"
    )
    client_id: str | None = Field(default=None, description="Client id for `token_url`")
    client_secret: SecretStr | None = Field(default=None, description="Client secret for `token_url`")
    client_secret_file: SecretFile = Field(default=None, description="File that holds it")
    scope: str | None = Field(default=None, description="What the token is for, if the provider asks")
    token_file: Path | None = Field(
        default=None, description="With OAUTHBEARER: file that something keeps a fresh token in"
    )
    token_command: str | None = Field(default=None, description="With OAUTHBEARER: command that prints a token")
    extensions: Mapping[ExactName, str] = Field(
        default={}, description="SASL extensions that the broker asks for, such as Confluent's `logicalCluster`"
    )
    timeout_s: float = Field(default=10.0, gt=0, description="Longest wait for a token")

    @property
    def has_place(self) -> bool:
        """Whether it is said where tokens come from."""
        return any(getattr(self, name) is not None for name in _PLACES)

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        given = [f"FREKI_KAFKA__OAUTH__{name.upper()}" for name in _PLACES if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} are set, and a token comes from one of them: leave out all others")
        check_command("KAFKA__OAUTH__TOKEN_COMMAND", self.token_command)
        if self.token_url is not None and (self.client_id is None or self.client_secret is None):
            raise ValueError(
                "FREKI_KAFKA__OAUTH__TOKEN_URL gives tokens to those it knows: set FREKI_KAFKA__OAUTH__CLIENT_ID and"
                " FREKI_KAFKA__OAUTH__CLIENT_SECRET"
            )
        return self


class KafkaSettings(SettingsSection):
    """Connection to the broker."""

    bootstrap: str = Field(
        default="127.0.0.1:9092",
        description="host:port of the brokers, separated by commas. Where neither this nor FREKI_MILVUS__URI is set, "
        "and a local stack runs in this folder or above, broker and store are its own",
    )
    profile: Literal["local", "kafka"] = Field(
        default="kafka", description="Timeouts: `local` for the broker of `freki up`, `kafka` for Apache Kafka"
    )
    topic_prefix: str = Field(
        default="freki", pattern=r"^[a-zA-Z0-9._-]{1,100}$", description="First part of every topic name"
    )
    topic_version: int = Field(default=1, ge=1, description="Last part of every topic name")
    partitions: int = Field(default=4, ge=1, le=1000, description="Partitions of each topic when created")
    replication: int = Field(default=1, ge=1, le=32_767, description="Replicas of each topic when created")
    max_message_bytes: int = Field(
        default=5_000_000, ge=100_000, le=2_147_483_647, description="Largest record: a query of a million characters"
    )
    delivery_timeout_s: float = Field(default=30.0, gt=0, description="Longest wait for an answer of the broker")
    security: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT", description="How to speak with the brokers"
    )
    ca_file: Path | None = Field(default=None, description="PEM file of the authority that signed the brokers")
    cert_file: Path | None = Field(default=None, description="PEM file of our own certificate (mutual TLS)")
    key_file: Path | None = Field(default=None, description="PEM file of the private key of `cert_file`")
    key_password: SecretStr | None = Field(default=None, description="Password of the key, if it is encrypted")
    key_password_file: SecretFile = Field(default=None, description="File that holds it")
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = Field(
        default="SCRAM-SHA-512", description="With SASL: how to prove who we are"
    )
    username: str | None = Field(default=None, description="User name for SASL; not with OAUTHBEARER")
    password: SecretStr | None = Field(default=None, description="Password for SASL; not with OAUTHBEARER")
    password_file: SecretFile = Field(default=None, description="File that holds it")
    oauth: OAuthSettings = OAuthSettings()

    @model_validator(mode="after")
    def _check_bootstrap(self) -> Self:
        if "@" in self.bootstrap:
            # It is not quoted.
            raise ValueError(
                "FREKI_KAFKA__BOOTSTRAP holds a name or password: put them into FREKI_KAFKA__USERNAME and "
                "FREKI_KAFKA__PASSWORD_FILE"
            )
        for server in self.bootstrap.split(","):
            if not is_address(server.strip()):
                raise ValueError(
                    f"FREKI_KAFKA__BOOTSTRAP={self.bootstrap}: {server.strip()!r} is no host:port; write it as "
                    "localhost:9092, several with commas between them"
                )
        return self

    @model_validator(mode="after")
    def _check_key(self) -> Self:
        if self.key_file is not None and self.cert_file is None:
            raise ValueError(
                "FREKI_KAFKA__KEY_FILE is the key of no certificate: set FREKI_KAFKA__CERT_FILE too, or neither"
            )
        return self

    @model_validator(mode="after")
    def _check_security(self) -> Self:
        """Refuse certificates and logins that `security` leaves unused: what they protect would go in plain text.

        A password alone is let pass: a file may hold one for several environments, of which none can clear it.
        """
        places = (
            ({"SSL", "SASL_SSL"}, "nothing is encrypted", ("ca_file", "cert_file", "key_file")),
            ({"SASL_PLAINTEXT", "SASL_SSL"}, "nobody logs in", ("username",)),
        )
        for needed, what, names in places:
            given = [name for name in names if getattr(self, name) is not None]
            if given and self.security not in needed:
                variable = f"FREKI_KAFKA__{given[0].upper()}"
                raise ValueError(
                    f"{variable} is set, but with FREKI_KAFKA__SECURITY={self.security} {what}: set "
                    f"FREKI_KAFKA__SECURITY to {' or '.join(sorted(needed))}, or {variable}=none"
                )
        if self.oauth.has_place and not (self.security.startswith("SASL") and self.sasl_mechanism == "OAUTHBEARER"):
            raise ValueError(
                f"FREKI_KAFKA__OAUTH__… says where tokens come from, but with FREKI_KAFKA__SECURITY={self.security} "
                f"and FREKI_KAFKA__SASL_MECHANISM={self.sasl_mechanism} none is asked for: set them to SASL_SSL and "
                "OAUTHBEARER, or leave FREKI_KAFKA__OAUTH__… out"
            )
        return self


class RegistrySettings(SettingsSection):
    """Avro framing: single-object encoding without a registry, Confluent wire format with one."""

    url: ServerUrl | None = Field(default=None, description="Base URL of a Confluent-compatible schema registry")
    username: str | None = Field(default=None, description="For basic authentication")
    password: SecretStr | None = Field(default=None, description="For basic authentication")
    password_file: SecretFile = Field(default=None, description="File that holds it")
    timeout_s: float = Field(default=10.0, gt=0, description="Longest wait for one call")
