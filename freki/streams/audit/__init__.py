"""Audit log: who was given what, and what changed."""
