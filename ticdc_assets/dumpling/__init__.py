"""An export of Dumpling: what its files are called, and what is in them.

Rules:
- Pure: a file is a `Source` of bytes; nothing here opens one.
- A value becomes the text of a row image (`events.row_image`), so that rows of an export are typed
  by the same rules as events.
- What the files do not state is an option, named as Dumpling names it (`Dialect`).  An option that
  does not fit the files is an error or a quarantined row, never another value.
- No file takes more memory than a window of it and its longest row, nor more time than its length.
"""
