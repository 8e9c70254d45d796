"""Sum of flat gradients over all contexts."""

from __future__ import annotations

from collections.abc import Sequence

import mxnet as mx


class GradientSum:
    """In-place sum of flat gradients, one vector per context.

    Each context sums one segment of the vectors of all contexts.

    With `sharded`, each context then has only the sum of its segment, and the rest of its vector is
    undefined.
    """

    def __init__(self, gradients: Sequence[mx.nd.NDArray], sharded: bool) -> None:
        size, count = gradients[0].size, len(gradients)
        assert size >= count, f"{size} parameters on {count} devices"
        self.store = mx.kv.create("device") if count > 1 else None
        self.sharded = sharded
        self.segments = [
            slice(size * number // count, size * (number + 1) // count) for number in range(count)
        ]
        self.parts = [[vector[segment] for vector in gradients] for segment in self.segments]
        self.local_sums = (
            [parts[owner] for owner, parts in enumerate(self.parts)] if sharded else list(gradients)
        )
        """Summed gradients on each context: only the segment of the context if `sharded`, else the
        complete vector.
        """
        if self.store is not None:
            for owner, parts in enumerate(self.parts):
                self.store.init(owner, parts[owner])

    def join(self, store: mx.kv.KVStore) -> None:
        """Extend the sum to the contexts of all processes that join the same store."""
        self.store = store
        for owner, parts in enumerate(self.parts):
            store.init(owner, parts[owner])

    def reduce(self) -> None:
        """Enqueue the sum in two phases.

        MXNet's engine treats all segments of a context as a single vector. In each phase, all
        contexts run in parallel.
        """
        if self.store is None:
            return
        for owner, parts in enumerate(self.parts):
            self.store.push(owner, parts)
        for owner, parts in enumerate(self.parts):
            self.store.pull(owner, out=parts[owner] if self.sharded else parts)

    def over_parts(self, values: Sequence[mx.nd.NDArray]) -> list[mx.nd.NDArray]:
        """Sum a scalar (1,) of each context's segment over all segments.

        The sum has identical bits on every context.
        """
        if not self.sharded or len(values) == 1:
            return list(values)
        return [
            mx.nd.add_n(*(value.as_in_context(target.context) for value in values))
            for target in values
        ]
