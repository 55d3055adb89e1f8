"""One module per framework: its recommended setup behind the interface of `system.py`."""
