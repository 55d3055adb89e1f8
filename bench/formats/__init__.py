"""Parsing quality on files written by office programs: `make formats`."""
