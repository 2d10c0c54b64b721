"""CSV data files of the storage sink: by columns where it is proven right, else by record."""
