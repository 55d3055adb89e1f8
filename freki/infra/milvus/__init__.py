"""The store: three collections of Milvus a generation, and one more for each further embedder.

index.py         MilvusIndex: import it from there, so that the fake needs no pymilvus
store.py         calls: time limits, retries, batches
collections.py   creates and checks the collections
layout.py        their columns and limits
shards.py        which chunk rows stand in which
rows.py          records to rows and back
filters.py       scopes to filter expressions
translate.py     the vendor's exceptions to ours
"""
