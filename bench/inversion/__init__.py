"""What vectors, token states and terms of BM25 reveal of the texts that they are made from."""
