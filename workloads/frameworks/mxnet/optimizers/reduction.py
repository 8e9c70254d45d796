"""The sum of flat gradients over contexts."""

from __future__ import annotations

from collections.abc import Sequence

import mxnet as mx


class GradientSum:
    """Sums flat gradients, one per context, in place; each context sums one segment for all.

    `sharded`: each context then keeps the sum of its own segment alone, and what the others hold is undefined.
    """

    def __init__(self, gradients: Sequence[mx.nd.NDArray], sharded: bool) -> None:
        size, count = gradients[0].size, len(gradients)
        assert size >= count, f"{size} parameters on {count} devices"
        self.store = mx.kv.create("device") if count > 1 else None
        self.sharded = sharded
        self.segments = [slice(size * number // count, size * (number + 1) // count) for number in range(count)]
        self.parts = [[vector[segment] for vector in gradients] for segment in self.segments]
        self.own = [parts[owner] for owner, parts in enumerate(self.parts)] if sharded else list(gradients)
        """What each context holds of the sum: its segment, or all."""
        if self.store is not None:
            for owner, parts in enumerate(self.parts):
                self.store.init(owner, parts[owner])

    def join(self, store: mx.kv.KVStore) -> None:
        """Sum over the contexts of other processes too: they do the same by the same store."""
        self.store = store
        for owner, parts in enumerate(self.parts):
            store.init(owner, parts[owner])

    def reduce(self) -> None:
        """Enqueue the sum. In phases, since all segments of a context are one vector to the engine: each loop runs on
        all contexts at once."""
        if self.store is None:
            return
        for owner, parts in enumerate(self.parts):
            self.store.push(owner, parts)
        for owner, parts in enumerate(self.parts):
            self.store.pull(owner, out=parts[owner] if self.sharded else parts)

    def over_parts(self, values: Sequence[mx.nd.NDArray]) -> list[mx.nd.NDArray]:
        """On every context the number (1,) of the whole sum, from the numbers of what each holds: the same bits on all."""
        if not self.sharded or len(values) == 1:
            return list(values)
        return [mx.nd.add_n(*(value.as_in_context(one.context) for value in values)) for one in values]
