"""Limits of tenants: what each uses, as workers know it from topics and store, and what is refused therefore."""
