"""Parsing of mails.

armour: text that OpenPGP signed or encrypted in place. content: decoded text of a part. document: subject, head and
bodies.
"""

from freki.operators.parse_email.document import parse_email

__all__ = ["parse_email"]
