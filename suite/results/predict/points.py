"""What is asked of a prediction, and what comes out: points on device counts, measured and predicted, with bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from suite.results.predict.epochs import Epochs
from suite.results.predict.links import MeasuredLink
from suite.results.predict.systems import System
from suite.results.score.measurement import Measurement
from suite.results.score.price import Prices
from workloads.api import GradientTraffic


@dataclass(frozen=True)
class Range:
    """A predicted figure with its bounds; all three are equal for a measured one."""

    middle: float
    low: float
    high: float

    @classmethod
    def exactly(cls, value: float) -> Range:
        """A measured figure."""
        return cls(value, value, value)

    def times(self, factor: float) -> Range:
        """The range in another unit."""
        return Range(self.middle * factor, self.low * factor, self.high * factor)

    def inverse(self, of: float) -> Range:
        """`of` over the range: a rate from a time."""
        return Range(of / self.middle, of / self.high, of / self.low)


@dataclass(frozen=True)
class Point:
    """One device count, measured or predicted."""

    devices: int
    batch_size_global: float
    """In the unit of the measurement."""
    measured: bool
    seconds_per_epoch: Range | None
    samples_per_second: Range | None
    epochs: Epochs
    binds: str
    """What a step waits for most; empty for a measured one."""

    @property
    def batch_per_device(self) -> float:
        """In the unit of the measurement."""
        return self.batch_size_global / self.devices

    @property
    def seconds(self) -> Range | None:
        """Time to target; None where epochs or time per epoch are not known."""
        if self.seconds_per_epoch is None or self.epochs.value is None:
            return None
        return self.seconds_per_epoch.times(self.epochs.value)

    @property
    def device_hours(self) -> float | None:
        """Of one job to the target."""
        return None if self.seconds is None else self.devices * self.seconds.middle / 3600.0


@dataclass(frozen=True)
class Forecast:
    """Measured and predicted points of one workload, in order of devices."""

    workload: str
    series: str
    profile: str
    labels: tuple[str, ...]
    unit: str
    method: str
    bounds: str
    """What low and high are."""
    points: tuple[Point, ...]
    notes: tuple[str, ...]
    price: float | None = None
    """Of a device for an hour; None if not given."""
    settings: str = ""
    """Those that distinguish it from other forecasts of the same workload and series; empty if there is none."""

    def efficiency(self, point: Point) -> float | None:
        """What each device does, over each of the fewest measured; from times per epoch, else from rates.

        Of several batches on the fewest devices the one nearest to the point's, for each device, is the base.
        """
        measured = [item for item in self.points if item.measured]
        fewest = [item for item in measured if item.devices == measured[0].devices]
        base = min(fewest, key=lambda item: abs(math.log(item.batch_per_device / point.batch_per_device)))
        ratio = base.devices / point.devices
        if point.seconds_per_epoch and base.seconds_per_epoch:
            return base.seconds_per_epoch.middle / point.seconds_per_epoch.middle * ratio
        if point.samples_per_second and base.samples_per_second:
            return point.samples_per_second.middle / base.samples_per_second.middle * ratio
        return None

    def cost(self, point: Point) -> float | None:
        """Price of one job to the target; None without a price or a time."""
        return None if self.price is None or point.device_hours is None else self.price * point.device_hours

    @property
    def fastest(self) -> Point | None:
        """The count with the shortest time to target, of equals the fewer devices; None if no time is known."""
        timed = [(point.seconds.middle, point.devices, point) for point in self.points if point.seconds]
        return min(timed, key=lambda item: item[:2])[2] if timed else None

    @property
    def cheapest(self) -> Point | None:
        """The count with the fewest device-hours to the target."""
        costed = [(point.device_hours, point.devices, point) for point in self.points if point.device_hours]
        return min(costed, key=lambda item: item[:2])[2] if costed else None


@dataclass(frozen=True)
class Wanted:
    """What to predict."""

    devices: tuple[int, ...]
    batch_per_device: float | None = None
    """In the unit of the measurement; None: that of the measurement on the nearest number of devices."""
    batch_global: float | None = None
    system: System | None = None
    """None: by the law of published rows."""
    gradients: GradientTraffic | None = None
    """None: of the workload's reference model."""
    prices: Prices | None = None
    links: tuple[MeasuredLink, ...] = ()
    """Measured by all-reduces; each takes the place of the system's own for runs on the same devices."""

    def batches(self, items: Sequence[Measurement]) -> list[tuple[int, float]]:
        """(devices, global batch) of each count but those in `items`. Raises ValueError below a sample a device."""
        chosen = [(devices, self._batch(devices, items)) for devices in self.devices]
        for devices, batch in chosen:
            if batch < devices:
                raise ValueError(
                    f"a batch of {batch:g} is less than a sample for each of {devices} devices; give a larger one"
                )
        measured = {(item.devices, float(item.batch_size_global or 0)) for item in items}
        return [one for one in chosen if one not in measured]

    def _batch(self, devices: int, items: Sequence[Measurement]) -> float:
        if self.batch_global is not None:
            return self.batch_global
        if self.batch_per_device is not None:
            return self.batch_per_device * devices
        nearest = min(items, key=lambda item: (abs(math.log(item.devices / devices)), -(item.batch_size_global or 0)))
        return (nearest.batch_size_global or 0) / nearest.devices * devices
