"""The documents of an index: lists of them, one with its chunks, and what happened to one."""
