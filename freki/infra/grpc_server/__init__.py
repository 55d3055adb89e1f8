"""The gRPC API: documents and queries of services, by the contracts of `freki/schemas/proto`."""
