"""Names of the inputs and outputs of graphs that Freki writes."""

INPUTS = ("input_ids", "attention_mask")
OUTPUT = "sentence_embedding"
FIELDS = "field_weights"
"""Optional input, (batch, fields, tokens) of float32: the weight of each token in the mean of each field of a text."""
TOKENS = {"passage": "passage_tokens", "query": "query_tokens"}
DISTILLED = {"passage": "passage_distilled", "query": "query_distilled"}
