"""Cost of a result: devices x hours to target x price of a device for an hour, in whatever currency the price is given."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from suite.results.columns import Row

OPTION = "--price-per-device-hour"


@dataclass(frozen=True)
class Prices:
    """The price of one device for one hour: one for all devices, or by name of the device."""

    every: float | None
    by_name: tuple[tuple[str, float], ...] = ()
    """(part of the device's name in lower case, price), longest names first."""

    def price(self, row: Row) -> float | None:
        """Price of one of its devices for an hour; None if no name fits."""
        named = [price for name, price in self.by_name if name in _hardware(row).lower()]
        return named[0] if named else self.every

    def cost(self, row: Row) -> float | None:
        """Cost of one result of `row`; None without a time to target, without a known number of devices, or without a price."""
        price = self.price(row)
        if price is None or row.seconds is None or not row.devices:
            return None
        return cost_of(price, row.devices, row.seconds)

    def unused_notes(self, results: Iterable[Row]) -> tuple[str, ...]:
        """Return one note that lists the names in the price list that no device of `results` has; empty without any.

        A price list may name more devices than a report has. A list of which no price applies is a mistake.

        Raises:
            ValueError: No price of the list applies to any device of `results`.
        """
        devices = sorted({_hardware(row) for row in results} - {""})
        unused = [f"{name}=…" for name, _ in self.by_name if not any(name in device.lower() for device in devices)]
        if not unused:
            return ()
        listed = ", ".join(devices[:8]) + (", …" if len(devices) > 8 else "")
        found = f"the devices here are: {listed}" if devices else "the devices of these results are not known"
        if len(unused) == len(self.by_name) and self.every is None:
            raise ValueError(f"{OPTION} {', '.join(unused)}: no device has one of these names; {found}")
        return (f"{OPTION} {', '.join(unused)}: not used, no device has it in its name; {found}",)


def cost_of(price: float, devices: int, seconds: float) -> float:
    """What `devices` cost for `seconds` at a price of one for an hour."""
    return price * devices * seconds / 3600


def parse_prices(text: str) -> Prices:
    """`2.5`, or `v100=2.48,a100=4.10` by a part of the device's name. Raises ValueError (one line) for anything else."""
    prices: dict[str, float] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(?:([^=,]{1,60})=)?\s*(\d{1,9}(?:\.\d{1,9})?)\s*", part)
        if match is None or not float(match[2]):
            raise ValueError(f"{OPTION} {text[:60]!r}: give a price above 0 such as 2.5, or v100=2.48,a100=4.10")
        name = (match[1] or "").strip().lower()
        if name in prices:
            what = f"{name} has two prices" if name else "there are two prices for every device"
            raise ValueError(f"{OPTION} {text[:60]!r}: {what}; give each name once, such as v100=2.48,a100=4.10")
        prices[name] = float(match[2])
    every = prices.pop("", None)
    return Prices(every, tuple(sorted(prices.items(), key=lambda item: -len(item[0]))))


def _hardware(row: Row) -> str:
    return str(row.device_name or row.device)
