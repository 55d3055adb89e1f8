"""Exports a model of Hugging Face's transformers into a directory that Freki runs."""

from freki.infra.models.export.exporter import ExportedModel, Precision, Request, export_model

__all__ = ["ExportedModel", "Precision", "Request", "export_model"]
