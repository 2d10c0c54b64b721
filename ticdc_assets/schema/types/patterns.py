"""Patterns and limits of MySQL value texts, for one value (`value_reader`) and columns (`rows`).

A pattern describes a whole text and reads the same in Python and in RE2, which Arrow uses.
"""

# More digits than a number of any type needs; longer texts are not parsed.
MAX_NUMBER_LENGTH = 1200
# On either side of the decimal point.
MAX_DECIMAL_DIGITS = 100
MIN_YEAR, MAX_YEAR = 1901, 2155

INTEGER = r"[+-]?[0-9]{1,40}"
DATE = r"[0-9]{4}-(?:0[0-9]|1[0-2])-(?:[0-2][0-9]|3[01])"
_MINUTES_AND_SECONDS = r":[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
DATETIME = rf"{DATE} (?:[01][0-9]|2[0-3]){_MINUTES_AND_SECONDS}"
# One moment, or the two that the text of the server may mean.
TIMESTAMP = rf"{DATETIME}(?:\|{DATETIME})?"
TIME = rf"-?(?:[0-9]{{2}}|[0-7][0-9]{{2}}|8[0-3][0-9]){_MINUTES_AND_SECONDS}"
