"""`python -m freki.streams`: the command line."""

from freki.streams.cli import main

main()
