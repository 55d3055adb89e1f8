"""Damage to an audit log: whether it is named, and how long that takes."""
