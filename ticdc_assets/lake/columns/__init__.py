"""MySQL values as Spark columns: name and type them, read row images, convert and write them.

- The pure `schema` package defines every rule and every pattern.  This package states the same
  rules as Spark expressions, for speed; tests compare the two value by value.
- No expression raises at run time: a text that cannot be read gives NULL and a flag.
- What no expression can do, `conversion` does in Python workers.
"""
