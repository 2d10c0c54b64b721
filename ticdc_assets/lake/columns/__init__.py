"""MySQL values as Spark columns: types, parsing row images, converting and writing them.

The pure `schema` package defines every rule; this package states the same rules as Spark
expressions, for speed.  Tests hold the two against each other.
"""
