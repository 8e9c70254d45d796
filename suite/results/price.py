"""Cost of a result in the currency of the user's price.

The cost is devices × hours to target × price per device-hour.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from suite.results.columns import Columns

OPTION = "--price-per-device-hour"


@dataclass(frozen=True)
class Prices:
    """Prices per device-hour: a default price, and prices by device name."""

    every: float | None
    """Price per hour of devices whose name matches no substring in `by_name`. None if only
    devices in `by_name` have a price.
    """
    by_name: tuple[tuple[str, float], ...] = ()
    """Pairs of a substring of a device name (in lower case) and a price. The longest substrings
    come first.
    """

    def price(self, result: Columns) -> float | None:
        """Return the price per device-hour of a result, or None if no price applies."""
        hardware = _hardware(result).lower()
        for name, price in self.by_name:
            if name in hardware:
                return price
        return self.every

    def cost(self, result: Columns) -> float | None:
        """Return the cost of a result's time to target.

        The function returns None if the time, the number of devices, or the price is unknown.
        """
        price = self.price(result)
        if price is None or result.seconds is None or not result.devices:
            return None
        return cost_of(price, result.devices, result.seconds)

    def unused_notes(self, results: Iterable[Columns]) -> tuple[str, ...]:
        """Return a note that lists the device names in the price list without a match.

        The tuple is empty if every name in the price list matches a device of `results`.

        A price list may contain devices that are not in the report. If no price applies to any
        device, the price list is probably wrong.

        Raises:
            ValueError: No price of the list applies to any device of `results`.
        """
        devices = sorted({_hardware(result) for result in results} - {""})
        unused = [
            f"{name}=…"
            for name, _ in self.by_name
            if not any(name in device.lower() for device in devices)
        ]
        if not unused:
            return ()
        listed = ", ".join(devices[:8]) + (", …" if len(devices) > 8 else "")
        found = (
            f"the devices here are: {listed}"
            if devices
            else "the devices of these results are unknown"
        )
        if len(unused) == len(self.by_name) and self.every is None:
            raise ValueError(
                f"{OPTION} {', '.join(unused)}: no device has any of these names; {found}"
            )
        return (
            f"{OPTION} {', '.join(unused)}: not used, because no device has the name ({found})",
        )


def cost_of(price: float, devices: int, seconds: float) -> float:
    """Return the cost of using a number of devices for a time.

    Args:
        price: Price per device-hour.
        devices: Number of devices.
        seconds: Time of use in seconds.
    """
    return price * devices * seconds / 3600


def parse_prices(text: str) -> Prices:
    """Parse the value of `--price-per-device-hour`.

    Args:
        text: A price for all devices (`2.5`), or prices by a substring of the device name
            (`v100=2.48,a100=4.10`).

    Raises:
        ValueError: The text is invalid, or a name has two prices.
    """
    prices: dict[str, float] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(?:([^=,]{1,60})=)?\s*(\d{1,9}(?:\.\d{1,9})?)\s*", part)
        if match is None or not float(match[2]):
            raise ValueError(
                f"{OPTION} {text[:60]!r}: expected a price above 0, such as 2.5, or"
                " v100=2.48,a100=4.10"
            )
        name = (match[1] or "").strip().lower()
        if name in prices:
            mistake = f"{name} has two prices" if name else "there are two prices for all devices"
            raise ValueError(
                f"{OPTION} {text[:60]!r}: {mistake}. Give each name once, such as"
                " v100=2.48,a100=4.10"
            )
        prices[name] = float(match[2])
    every = prices.pop("", None)
    return Prices(every, tuple(sorted(prices.items(), key=lambda item: -len(item[0]))))


def _hardware(result: Columns) -> str:
    return str(result.device_name or result.device)
