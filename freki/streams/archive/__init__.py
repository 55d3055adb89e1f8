"""Archives: an index, or a tenant of one, as files, and back.

export_index.py   reads documents as wholes while workers change them
import_index.py   writes them by the commit protocol, beside workers if need be
"""

from freki.streams.archive.export_index import Exporter
from freki.streams.archive.import_index import Importer, ImportReport

__all__ = ["Exporter", "ImportReport", "Importer"]
