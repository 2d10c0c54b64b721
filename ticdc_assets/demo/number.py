"""Print numbers as Go does, from the plain decimal text of the upstream."""


def exponent_form(text: str) -> str:
    """Print a float as Go does by default: with an exponent from 1e+06 on and below 1e-04."""
    return _print_digits(text, -4, 6)


def json_number(text: str) -> str:
    """Print a float as Go does in JSON: with an exponent from 1e+21 on and below 1e-06."""
    return _print_digits(text, -6, 21)


def _print_digits(text: str, least: int, most: int) -> str:
    """Print a number with an exponent if that is not from `least` to below `most`."""
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    whole, _, fraction = digits.partition(".")
    # A short cut for the most common numbers.
    if len(whole) <= most and (whole != "0" or not fraction.startswith("0000")):
        return text
    significant = (whole + fraction).lstrip("0")
    if not significant:
        return text
    exponent = len(whole) - 1 if whole != "0" else len(significant) - len(fraction) - 1
    if least <= exponent < most:
        return text
    significant = significant.rstrip("0")
    mantissa = significant[0] + ("." + significant[1:] if len(significant) > 1 else "")
    return f"{sign}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02}"
