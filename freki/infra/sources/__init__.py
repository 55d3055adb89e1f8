"""What the command line publishes: files and folders, folders while they change, and recorded streams."""

from freki.infra.sources.files import SourceFile, read_source, walk
from freki.infra.sources.recorded import StreamRecord, read_stream
from freki.infra.sources.watch import FileChange, FileEvent, watch

__all__ = ["FileChange", "FileEvent", "SourceFile", "StreamRecord", "read_source", "read_stream", "walk", "watch"]
