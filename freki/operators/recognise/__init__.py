"""What kind of document content is.

content  by what it holds
kinds    by its name and media type
decode   text from bytes
"""

from freki.operators.recognise.content import Recognised, recognise
from freki.operators.recognise.kinds import Profile

__all__ = ["Profile", "Recognised", "recognise"]
