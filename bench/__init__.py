"""Measurements that need more than Freki's own environment."""
