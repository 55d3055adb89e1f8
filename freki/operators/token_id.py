"""Read the id of a token, for who sends it."""

import json
from base64 import urlsafe_b64decode


def token_id(token: str) -> str | None:
    """Return the claim `jti` of a JSON Web Token, unverified; None if there is none."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (IndexError, ValueError, RecursionError):
        return None
    found = claims.get("jti") if isinstance(claims, dict) else None
    return found if isinstance(found, str) and found else None
