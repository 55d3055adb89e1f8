"""`python -m freki`: the command line."""

from freki.cli.main import main

main()
