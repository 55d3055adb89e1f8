"""The HTTP door: an application for services and a page for people."""
