#!/usr/local/bin/python3
"""Becomes the server of Milvus Lite, whatever it is told: outside its image it listens to the machine itself only."""

import os

LIBRARY = "/opt/milvus-lite"

arguments = ["milvus", "/var/lib/milvus/test.db", "0.0.0.0:19530", "ERROR"]
# Python would not start with these libraries.
os.execve(f"{LIBRARY}/milvus", arguments, {**os.environ, "LD_LIBRARY_PATH": LIBRARY})  # noqa: S606 - no shell
