"""The Python types of typed values.

`value_reader` reads a value from its text in a row image, `value_writer` prints it as MySQL does.
"""

from decimal import Decimal

# int: integers, YEAR, BIT.  float: FLOAT (rounded to 32 bits), DOUBLE.  Decimal: with the declared
# scale.  bytes: binary types.  str: the MySQL text of all other types; member names for ENUM, SET.
Value = int | float | Decimal | str | bytes | None
