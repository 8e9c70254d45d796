"""A plain gloo all-reduce between processes on one machine.

    python -m benchmarks.bare.allreduce_gloo RANK COUNT PORT BYTES CORE

Every process runs WARMUPS untimed and then TIMED timed all-reduces. Rank 0 prints JSON with the
median time of the timed all-reduces. This program does not import the suite.
"""

import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

WARMUPS, TIMED = 5, 20

rank, count, port, size, core = (int(word) for word in sys.argv[1:])
os.sched_setaffinity(0, {core})
torch.set_num_threads(1)
dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=count)
buffer = torch.zeros(size // 4)
seconds = []
for step in range(WARMUPS + TIMED):
    begin = time.perf_counter()
    dist.all_reduce(buffer)
    if step >= WARMUPS:
        seconds.append(time.perf_counter() - begin)
if rank == 0:
    print(json.dumps({"median_seconds": statistics.median(seconds)}))
dist.destroy_process_group()
