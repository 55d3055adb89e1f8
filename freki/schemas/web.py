"""What a web server says."""

from collections.abc import Mapping

from freki.schemas.names import record


@record
class WebAnswer:
    """One answer, also one that leads elsewhere."""

    url: str
    """As asked for."""
    status: int
    headers: Mapping[str, str]
    """Names in small letters."""
    content: bytes
    """Empty where the status is not 200."""

    @property
    def media_type(self) -> str:
        """Such as `text/html`; empty where the server does not say."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()
