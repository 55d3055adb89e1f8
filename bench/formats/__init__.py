"""How well files are read that the programs of offices write: `make formats`."""
