"""What the APIs of `freki serve` share, whatever their protocol."""
