"""One task of an array of Slurm jobs (see slurm_sweep.sh), and what joins their results.

    python slurm_part.py TRACE FOLDER                 # within a job: the part that SLURM_ARRAY_TASK_ID says
    python slurm_part.py --join FOLDER OUT.parquet
"""

import os
import pathlib
import sys

import pyarrow
import pyarrow.parquet

import forebay


def simulate(trace: str, folder: pathlib.Path) -> None:
    """Simulates this task's part; a part that is there already is left alone, so that an array can be sent again."""
    first = int(os.environ["SLURM_ARRAY_TASK_MIN"])
    part = int(os.environ["SLURM_ARRAY_TASK_ID"]) - first
    parts = int(os.environ["SLURM_ARRAY_TASK_COUNT"])
    out = folder / f"part-{part:05}-of-{parts:05}.parquet"
    if out.exists():
        return
    study = forebay.Study(trace)
    capacities = [max(study.footprint_bytes * share // 16, 1 << 20) for share in range(1, 17)]
    found = study.sweep(capacities, policies=["lru", "arc", "s3-fifo", "belady"], nodes=[1, 8, 32], part=(part, parts))
    draft = out.with_suffix(".draft")
    pyarrow.parquet.write_table(found.table(), draft)
    draft.rename(out)


def join(folder: pathlib.Path, out: str) -> None:
    """All parts as one file."""
    parts = sorted(folder.glob("part-*.parquet"))
    if not parts:
        sys.exit(f"there are no parts in {folder}")
    wanted = int(parts[0].stem.rsplit("-", 1)[1])
    if len(parts) != wanted:
        sys.exit(f"{len(parts)} of {wanted} parts are in {folder}; send the array again for the others")
    table = pyarrow.concat_tables(pyarrow.parquet.read_table(part) for part in parts)
    pyarrow.parquet.write_table(table, out)
    print(f"{table.num_rows} simulations by {wanted} tasks: {out}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--join"] and len(sys.argv) == 4:
        join(pathlib.Path(sys.argv[2]), sys.argv[3])
    elif len(sys.argv) == 3:
        simulate(sys.argv[1], pathlib.Path(sys.argv[2]))
    else:
        sys.exit(__doc__)
