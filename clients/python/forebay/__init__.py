"""Traces of I/O, and what a burst buffer would make of them, as numpy and Arrow.

Reading (any format that `forebay trace info` knows)::

    trace = forebay.read("job.fbt")            # or .darshan, strace, fio, blktrace, MUSE, ...
    trace["size"][trace.is_op("write")].sum()  # columns are numpy arrays
    table = trace.table()                      # the same as an Arrow table
    for batch in forebay.batches("big.fbt"):   # bounded memory
        ...

Curves::

    found = forebay.analyze("job.fbt", chunk_bytes=1 << 20)
    found.miss_ratios("arc", [1 << 30, 2 << 30])

Sweeps::

    study = forebay.Study("job.fbt", chunk_bytes=1 << 20)
    result = study.sweep(capacities=[1 << 28, 1 << 30], policies=["lru", "arc"], nodes=[1, 8])
    result["full_ratio"]                       # numpy
    result.table()                             # Arrow

A sweep can be cut into parts, one for each task of a Dask cluster or a Slurm array: `part=(3, 16)` is the fourth of sixteen. Parts have
no row in common, and together all rows of the whole.

Sizes are bytes, times nanoseconds, rates bytes a second.
"""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Iterator, Mapping, Optional, Sequence, Tuple, Union

import numpy

from ._forebay import Analysis as _Analysis
from ._forebay import Reader as _Reader
from ._forebay import Study as _Study
from ._forebay import TraceError

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Analysis", "Columns", "Study", "Trace", "TraceError", "analyze", "batches", "concatenate", "read"]

Path = Union[str, "os.PathLike[str]"]

#: What each column of a trace is.
COLUMNS = {
    "start_ns": numpy.uint64,
    "duration_ns": numpy.uint64,
    "op": numpy.uint8,
    "layer": numpy.uint8,
    "flags": numpy.uint32,
    "process": numpy.uint32,
    "file": numpy.uint32,
    "other": numpy.uint32,
    "offset": numpy.uint64,
    "size": numpy.uint64,
    "result": numpy.int64,
}

#: The number of no file and of no process.
NONE = 0xFFFF_FFFF

OPERATIONS: Tuple[str, ...] = tuple(_Reader.operations())
LAYERS: Tuple[str, ...] = tuple(_Reader.layers())
FLAGS: Tuple[str, ...] = tuple(_Reader.flags())

_BATCH_RECORDS = 1 << 20
_MIB = 1 << 20


class Columns(Mapping):
    """Arrays of one length, by name."""

    def __init__(self, columns: Mapping[str, numpy.ndarray]):
        self._columns = dict(columns)

    def __getitem__(self, name: str) -> numpy.ndarray:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        """How many columns; `rows` is how many rows."""
        return len(self._columns)

    @property
    def rows(self) -> int:
        """How many rows."""
        return len(next(iter(self._columns.values()), ()))

    def table(self) -> "pyarrow.Table":
        """An Arrow table; numbers are not copied."""
        import pyarrow

        return pyarrow.table({name: pyarrow.array(column) for name, column in self._columns.items()})

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.rows} rows: {', '.join(self._columns)}>"


class Trace(Columns):
    """Records as columns, and the names that their numbers stand for."""

    def __init__(self, columns: Mapping[str, numpy.ndarray], files: Sequence[str], facts: Sequence[Tuple[str, str]], gaps: Sequence[str]):
        super().__init__(columns)
        #: The paths of the files, by number.
        self.files = list(files)
        #: What is known of the trace as a whole: names and values.
        self.facts = list(facts)
        #: What is known to be missing, in words.
        self.gaps = list(gaps)

    def is_op(self, name: str) -> numpy.ndarray:
        """Which records are of this operation."""
        return self["op"] == OPERATIONS.index(name)

    def has_flag(self, name: str) -> numpy.ndarray:
        """Which records have this flag."""
        return (self["flags"] >> FLAGS.index(name)) & 1 == 1

    def table(self) -> "pyarrow.Table":
        """An Arrow table; operations, layers and files by name (dictionaries)."""
        import pyarrow

        def named(numbers: numpy.ndarray, names: Sequence[str]) -> "pyarrow.Array":
            # NONE, or a number that the trace has no name for, is null.
            missing = numbers >= len(names)
            indices = pyarrow.array(numpy.where(missing, 0, numbers).astype(numpy.int32), mask=missing)
            return pyarrow.DictionaryArray.from_arrays(indices, pyarrow.array(list(names), pyarrow.string()))

        columns = {name: pyarrow.array(column) for name, column in self.items()}
        columns["op"] = named(self["op"], OPERATIONS)
        columns["layer"] = named(self["layer"], LAYERS)
        columns["file"] = named(self["file"], self.files)
        columns["other"] = named(self["other"], self.files)
        return pyarrow.table(columns)


def batches(path: Path, *, format: Optional[str] = None, records: int = _BATCH_RECORDS) -> Iterator[Trace]:
    """The records of a trace, so many at a time, in the trace's own order."""
    if records < 1:
        raise ValueError("a batch has at least one record")
    reader = _Reader(path, format)
    while (batch := reader.batch(records)) is not None:
        columns = {name: numpy.frombuffer(batch[name], kind) for name, kind in COLUMNS.items()}
        yield Trace(columns, reader.files(), reader.facts(), reader.gaps())


def read(path: Path, *, format: Optional[str] = None) -> Trace:
    """A whole trace, in its own order. It must fit into memory: about 60 bytes a record; `batches` needs no more than a batch."""
    reader = _Reader(path, format)
    parts = []
    while (batch := reader.batch(_BATCH_RECORDS)) is not None:
        parts.append(batch)
    columns = {name: numpy.concatenate([numpy.frombuffer(part[name], kind) for part in parts] or [numpy.empty(0, kind)]) for name, kind in COLUMNS.items()}
    return Trace(columns, reader.files(), reader.facts(), reader.gaps())


class Analysis:
    """What one pass over a trace finds out."""

    def __init__(self, path: Path, *, chunk_bytes: int = _MIB, format: Optional[str] = None, seed: int = 1):
        self._found = _Analysis(path, chunk_bytes, format, seed)
        self.chunk_bytes = chunk_bytes

    @property
    def footprint_bytes(self) -> int:
        """Bytes of the different chunks."""
        return self._found.chunks * self.chunk_bytes

    @property
    def locality(self) -> float:
        """R_buf: the share of requests that touch what was touched before."""
        return self._found.locality

    @property
    def kept_share(self) -> float:
        """The share of chunks that the curves of policies other than LRU rest on; 1 if they are exact."""
        return self._found.kept_share

    def miss_ratios(self, policy: str, capacities: Sequence[int]) -> numpy.ndarray:
        """The miss ratios of a policy with buffers of so many bytes."""
        return numpy.array(self._found.miss_ratios(policy, [int(capacity) for capacity in capacities]))

    def reuse_distances(self) -> Optional[Tuple[numpy.ndarray, numpy.ndarray]]:
        """How often each reuse distance, in chunks, was seen, of reads and of writes; None if there were too many chunks to be exact."""
        found = self._found.reuse_distances()
        return None if found is None else tuple(numpy.array(counts) for counts, _ in found)


def analyze(path: Path, *, chunk_bytes: int = _MIB, format: Optional[str] = None, seed: int = 1) -> Analysis:
    """One pass over a trace."""
    return Analysis(path, chunk_bytes=chunk_bytes, format=format, seed=seed)


class Study:
    """A trace in memory, for any number of simulations. Threads may share it."""

    def __init__(self, path: Path, *, chunk_bytes: int = _MIB, format: Optional[str] = None):
        self._study = _Study(path, chunk_bytes, format)

    @property
    def footprint_bytes(self) -> int:
        """Bytes of the different chunks: a buffer of as many never swaps."""
        return self._study.footprint_bytes

    def sweep(
        self,
        capacities: Sequence[int],
        *,
        policies: Sequence[str] = ("lru",),
        granularities: Sequence[str] = ("chunk",),
        write_backs: Sequence[str] = ("sync",),
        nodes: Sequence[int] = (1,),
        count: str = "chunks",
        home_rate: float = 500e6,
        buffer_rate: float = 5e9,
        rate_table: Optional[str] = None,
        part: Tuple[int, int] = (0, 1),
    ) -> Columns:
        """Every combination of these, one row each, as `forebay sim` has them. `rate_table` is the text of such a table.

        `part=(i, n)` takes every n-th combination, from the i-th on.
        """
        first, step = part
        if not 0 <= first < step:
            raise ValueError(f"part={part}: the first number must be below the second")
        order = itertools.product(nodes, write_backs, granularities, policies, capacities)
        asked = [
            (int(capacity), policy, granularity, write_back, count, int(on))
            for on, write_back, granularity, policy, capacity in itertools.islice(order, first, None, step)
        ]
        found = self._study.simulate(asked, float(home_rate), float(buffer_rate), rate_table)
        return _rows(asked, found)


def _rows(asked: Sequence[tuple], found: Sequence[tuple]) -> Columns:
    texts = {"policy": 1, "granularity": 2, "write_back": 3}
    columns = {"capacity_bytes": numpy.array([row[0] for row in asked], numpy.uint64)}
    columns.update({name: numpy.array([row[at] for row in asked], numpy.str_) for name, at in texts.items()})
    columns["nodes"] = numpy.array([row[5] for row in asked], numpy.uint32)

    def numbers(values: Sequence[Sequence[float]], names: Sequence[str]) -> None:
        array = numpy.array(values, numpy.float64).reshape(len(values), len(names))
        columns.update({name: array[:, at].copy() for at, name in enumerate(names)})

    numbers([row[0] for row in found], ["IS_bytes", "RHS_bytes", "RMS_bytes", "WS_bytes", "WBS_bytes"])
    numbers([[row[1]] for row in found], ["miss_ratio"])
    numbers([row[2] for row in found], ["background_bytes", "evicted_bytes", "dirty_left_bytes"])
    rates = ["paper_max_bytes_per_s", "paper_actual_bytes_per_s", "full_max_bytes_per_s", "full_actual_bytes_per_s"]
    numbers([row[3] for row in found], rates)
    for formula in ("paper", "full"):
        best = columns[f"{formula}_max_bytes_per_s"]
        actual = columns[f"{formula}_actual_bytes_per_s"]
        columns[f"{formula}_ratio"] = numpy.divide(actual, best, out=numpy.where(best == 0, 1.0, numpy.nan), where=best > 0)
    # Why a row has no result; empty if it has one.
    columns["infeasible"] = numpy.array([row[4] or "" for row in found], numpy.str_)
    return Columns(columns)


def concatenate(parts: Sequence[Columns]) -> Columns:
    """The parts of a sweep as one, in the order in which they are given."""
    return Columns({name: numpy.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {})
