"""Where settings come from: the environment, and `freki.toml`."""

from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import EnvSettingsSource, TomlConfigSettingsSource


class Environment(EnvSettingsSource):
    """The variables that are set and not empty."""

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:  # noqa: ANN401
        """Read lists and tables as JSON; other text stays text, so that the checks that follow name its variable."""
        try:
            return super().decode_complex_value(field_name, field, value)
        except ValueError:
            return value

    def __call__(self) -> dict[str, Any]:
        """Give the settings that are set."""
        return _without_empty(super().__call__())


class File(TomlConfigSettingsSource):
    """The lines of `freki.toml` whose value is not empty."""

    def __call__(self) -> dict[str, Any]:
        """Give the settings that are set."""
        return _without_empty(super().__call__())


def _without_empty(values: dict[str, Any]) -> dict[str, Any]:
    """Leave out empty texts, also in tables: deployment tools hand them over for what nobody set.

    Zero, false and an empty list are values.
    """
    return {
        name: _without_empty(value) if isinstance(value, dict) else value
        for name, value in values.items()
        if value != ""
    }
