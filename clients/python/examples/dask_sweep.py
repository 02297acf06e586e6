"""A sweep over many buffers on a Dask cluster: each task simulates a part, and the parts come back as one Arrow table.

    python dask_sweep.py TRACE OUT.parquet                          # a cluster on this machine
    python dask_sweep.py TRACE OUT.parquet --scheduler tcp://host:8786

Every worker must be able to read the trace under the same path, and reads it once.
"""

import argparse
import functools

import pyarrow.parquet
from dask.distributed import Client

import forebay

MIB = 1 << 20


@functools.lru_cache(maxsize=1)
def study(trace: str, chunk_bytes: int) -> forebay.Study:
    """The trace, in the memory of this worker."""
    return forebay.Study(trace, chunk_bytes=chunk_bytes)


def simulate(trace: str, chunk_bytes: int, part: int, parts: int) -> forebay.Columns:
    """A part of the sweep: eight capacities up to what the trace touches, every policy, 1 to 32 nodes."""
    here = study(trace, chunk_bytes)
    capacities = [max(here.footprint_bytes * share // 8, chunk_bytes) for share in range(1, 9)]
    return here.sweep(
        capacities,
        policies=["lru", "fifo", "lfu", "lfuda", "arc", "lirs", "s3-fifo", "sieve", "w-tinylfu", "belady"],
        write_backs=["sync", "async"],
        nodes=[1, 2, 4, 8, 16, 32],
        part=(part, parts),
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("trace")
    options.add_argument("out")
    options.add_argument("--scheduler", help="address of a running cluster; without it, one is started on this machine")
    options.add_argument("--workers", type=int, default=2, help="of the cluster on this machine")
    options.add_argument("--parts", type=int, default=16)
    options.add_argument("--chunk-bytes", type=int, default=MIB)
    asked = options.parse_args()
    local = {"n_workers": asked.workers, "threads_per_worker": 1, "dashboard_address": None}
    with Client(asked.scheduler) if asked.scheduler else Client(**local) as client:
        tasks = [client.submit(simulate, asked.trace, asked.chunk_bytes, part, asked.parts) for part in range(asked.parts)]
        result = forebay.concatenate(client.gather(tasks))
    pyarrow.parquet.write_table(result.table(), asked.out)
    print(f"{result.rows} simulations by {asked.parts} tasks: {asked.out}")


if __name__ == "__main__":
    main()
