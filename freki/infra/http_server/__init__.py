"""The HTTP API: an application for services and a page for people."""
