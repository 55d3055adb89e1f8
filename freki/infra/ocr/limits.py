"""What OCR may make of a scan."""

MOST_BYTES = 256 << 20
"""Maximum size of the text or PDF that OCR makes of one scan, which lies in the memory of the worker."""
