"""Responses of web servers."""

from collections.abc import Mapping

from freki.schemas.names import record


@record
class WebAnswer:
    """A response, which may be a redirect."""

    url: str
    """Requested URL."""
    status: int
    headers: Mapping[str, str]
    """Headers with names in lower case; several X-Robots-Tag are lines of one value."""
    content: bytes
    """Body; empty where the status is not 200."""
    retry_after_s: float | None = None
    """Seconds after which the server wants to be asked again; None where it does not say."""

    @property
    def media_type(self) -> str:
        """Media type, such as `text/html`; empty where not stated."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()
