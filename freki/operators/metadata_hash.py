"""Fingerprint of what can change on a chunk row while its content stays."""

import hashlib
import json

from freki.schemas import Revision


def metadata_hash(revision: Revision, *, analyser: str) -> str:
    """Return 16 hexadecimal digits that differ where name, type, language, readers, attributes or analyser differ.

    The order of principals and attributes does not matter.
    """
    parts = [
        analyser,
        revision.name,
        revision.media_type,
        revision.language,
        sorted(set(revision.principals)),
        sorted(revision.attributes.items()),
    ]
    return hashlib.blake2b(json.dumps(parts, ensure_ascii=False).encode(), digest_size=8).hexdigest()
