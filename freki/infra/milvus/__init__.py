"""The store: three collections of Milvus a generation.

index.py         MilvusIndex: import it from there, so that the fake needs no pymilvus
store.py         calls: time limits, retries, batches
collections.py   creates and checks the collections
layout.py        their columns and limits
rows.py          records to rows and back
filters.py       scopes to filter expressions
translate.py     the vendor's exceptions to ours
"""
