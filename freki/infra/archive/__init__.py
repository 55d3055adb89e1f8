"""Archives of an index: Parquet files with checksums, written and read volume by volume.

tables.py   rows of the store to Parquet and back
writer.py   writes an archive; continues an interrupted one
reader.py   reads one, and checks its files
readme.py   README.md of an archive
folder.py   names, checksums and atomic writes of files; dated folders
"""
