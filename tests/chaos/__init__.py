"""Workers are added, removed, killed and suspended while documents change and a reader checks every answer."""
