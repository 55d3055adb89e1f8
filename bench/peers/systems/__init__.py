"""One module a framework: its recommended way, behind the interface of `system.py`."""
