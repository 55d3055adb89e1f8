"""What the doors of `freki serve` share, whatever their protocol."""
