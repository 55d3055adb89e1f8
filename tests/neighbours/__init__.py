"""Systems that stand beside Freki: `make neighbours` fetches or builds each, and skips what cannot be had."""
