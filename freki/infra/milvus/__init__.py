"""The store: three Milvus collections per generation, and one more for each additional embedder.

index.py         MilvusIndex, made of chunk_rows.py, roots.py and search.py on one connection.py; import it from there,
                 so that the rest of the package needs no pymilvus
generations.py   the log of generations, and which of them the store holds
store.py         calls: time limits, retries, batches
collections.py   creates and checks the collections
layout.py        columns and limits of the collections
shards.py        the collection that holds the chunk rows of an embedder
rows.py          records to rows and back
watermarks.py    watermarks of several processes, merged
keys.py          keys of rows, checked
filters.py       scopes to filter expressions
translate.py     exceptions of pymilvus to those of `schemas.errors`
"""
