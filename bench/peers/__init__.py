"""Freki beside other frameworks: same models, same data, same store, each in an environment of its own."""
