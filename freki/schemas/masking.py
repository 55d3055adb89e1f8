"""Credentials in text for people: masked in messages of errors, logs and settings."""

import re

MASK = "**********"
_USER_INFO = re.compile(r"(?<=://)[^/\s\"'<>?#]+(?=@)")
"""Name and password in a URL; a password that holds / ? or # is percent-encoded there."""
_PARAMETER = re.compile(
    r"(?i)(?<=[?&])((?:access_?token|api[_-]?key|auth|key|password|secret|sig|signature|token"
    r"|x-amz-(?:credential|security-token|signature))=)[^&\s\"'<>#]+"
)
"""Parameters of URLs by which services tell who may call."""


def masked(text: str) -> str:
    """Return text with the credentials in its URLs masked: name and password, and parameters such as `token`."""
    if "://" not in text:
        return text
    return _PARAMETER.sub(rf"\1{MASK}", _USER_INFO.sub(MASK, text))
