"""Fingerprint of all rules that a revision in the index was made by."""

import json
from hashlib import blake2b


def fingerprint(outline: str, *, analyser: str, embedder: str) -> str:
    """Return a fingerprint of parser, chunker, contexts, analyser and embedder, as 16 hexadecimal digits.

    outline: fingerprint of parser, chunker and contexts, with their settings (`Revision.chunker`). Revisions with equal
    fingerprints have the same chunks, contexts and vectors for the same content; those with others may differ in any.
    """
    return blake2b(json.dumps([outline, analyser, embedder]).encode(), digest_size=8).hexdigest()
