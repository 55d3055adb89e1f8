"""Settings of the store."""

from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator
from pydantic_core import PydanticCustomError

from freki.infra.settings.section import SecretFile, SettingsSection


class MilvusSettings(SettingsSection):
    """Connection to the store."""

    uri: str = Field(
        default="http://127.0.0.1:19530",
        description="URI of Milvus; see FREKI_KAFKA__BOOTSTRAP for that of a local stack",
    )
    token: SecretStr | None = Field(default=None, description="`user:password` or API key")
    token_file: SecretFile = Field(default=None, description="File that holds it")
    database: str = Field(default="default", description="Database of Milvus")
    generation: str = Field(
        default="g1",
        pattern=r"^[a-z0-9_]{1,32}$",
        description="Index that workers write, and that answers until `freki generations switch` names one",
    )
    collection_prefix: str = Field(
        default="freki", pattern=r"^[a-z][a-z0-9_]{0,31}$", description="First part of every collection's name"
    )
    timeout_s: float = Field(default=10.0, gt=0, description="Longest wait for one call")
    partition_key: bool = Field(default=False, description="Partition rows by tenant; not on the local store")

    @field_validator("uri")
    @classmethod
    def _check_port(cls, uri: str) -> str:
        """Refuse what no URL is, without quoting it; the client says which of the others name no store."""
        try:
            urlsplit(uri).port  # noqa: B018 - reading it checks it
        except ValueError:
            raise PydanticCustomError(
                "store_uri",
                "no URI of a store: write it like https://host:19530, [::1] for an IPv6 address; a password belongs in "
                "FREKI_MILVUS__TOKEN",
            ) from None
        return uri
