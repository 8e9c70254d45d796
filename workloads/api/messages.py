"""Build error messages from the given value, the allowed values, and the best match.

A message for users is one line: `KEY=VALUE: expected an integer of at least 1, for example gpus=8`
or `KEY=VALUE: allowed: a, b (did you mean 'a'?)`. The remedy follows as `Set KEY=VALUE` or `Run:
COMMAND`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

TYPE_NAMES: Mapping[type, str] = {
    int: "an integer",
    float: "a number",
    bool: "true or false",
    str: "a string",
}


def suggestion(value: str, allowed: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` with the allowed name that is most similar to `value`.

    The comparison ignores case. The string is empty if no allowed name is similar.
    """
    by_lower = {name.lower(): name for name in allowed}
    matches = difflib.get_close_matches(value.lower(), list(by_lower), n=1, cutoff=0.5)
    return f" (did you mean '{by_lower[matches[0]]}'?)" if matches else ""


def allowed_text(names: Iterable[str], value: object = "") -> str:
    """Return `allowed: a, b (did you mean 'a'?)`.

    Args:
        names: The allowed names, in the order in which the text lists them.
        value: Name from the user. If empty, the text does not suggest a name.
    """
    listed = list(names)
    nearest = suggestion(str(value), listed) if value != "" else ""
    return f"allowed: {', '.join(listed) or 'none'}{nearest}"


def invalid_choice(what: str, value: object, allowed: Iterable[str]) -> ValueError:
    """Return the error for an invalid name.

    The error message contains the given name, the allowed names, and the nearest match in one line.
    """
    return ValueError(f"{what}={value}: {allowed_text(sorted(allowed), value)}")


def invalid_value(what: str, value: object, expected: str, remedy: str = "") -> ValueError:
    """Return the error for a value with a wrong type or an invalid range.

    Args:
        what: Key of the value.
        value: The invalid value.
        expected: Description of the allowed values, such as `an integer of at least 1`.
        remedy: Text at the end of the message, such as `, for example gpus=8` or `. Set gpus=8`.
    """
    return ValueError(f"{what}={value}: expected {expected}{remedy}")
