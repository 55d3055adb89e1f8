"""Sources of documents: files, watched folders, git repositories, recorded streams."""

from freki.infra.sources.files import (
    Inaccessible,
    Naming,
    SourceFile,
    is_missing,
    is_skipped,
    media_type_of,
    read_source,
    scan,
    walk,
)
from freki.infra.sources.git import GitRepository
from freki.infra.sources.recorded import StreamRecord, read_stream
from freki.infra.sources.watch import SETTLE_S, FileChange, FileEvent, FolderGone, watch

__all__ = [
    "SETTLE_S",
    "FileChange",
    "FileEvent",
    "FolderGone",
    "GitRepository",
    "Inaccessible",
    "Naming",
    "SourceFile",
    "StreamRecord",
    "is_missing",
    "is_skipped",
    "media_type_of",
    "read_source",
    "read_stream",
    "scan",
    "walk",
    "watch",
]
