"""Hash of the fields of a chunk row that can change without its content."""

import hashlib
import json

from freki.schemas import Revision


def metadata_hash(revision: Revision, *, analyser: str) -> str:
    """Return a hash of name, type, language, readers, attributes and analyser, as 16 hexadecimal digits.

    Independent of the order of principals and attributes.
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
