"""CSV data files of the storage sink.

`decoder` reads a file in two ways: `columnar` with pyarrow, block by block, wherever it can prove
the result exact; `scanner` record by record everywhere else.  `shape` says which field is which
column, `batch` collects rows and pairs the two records of an update.
"""
