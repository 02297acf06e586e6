"""What the module reads, analyzes and simulates is what the command does: python_module.py TRACE RECORDS SIM ANALYZE.

RECORDS, SIM and ANALYZE hold what `forebay trace cat`, `sim` and `analyze` say of TRACE with --json.
"""

import json
import pathlib
import sys

import numpy
import pyarrow

import forebay

CHUNK = 1 << 16
trace_path, records_path, sim_path, analyze_path = map(pathlib.Path, sys.argv[1:])

# Records: every column, and the same from batches of another size.
records = [json.loads(line) for line in records_path.read_text().splitlines()]
trace = forebay.read(trace_path)
assert trace.rows == len(records) > 1000, (trace.rows, len(records))
for name in ("start_ns", "duration_ns", "offset", "size", "result"):
    assert trace[name].tolist() == [record[name] for record in records], name
assert [forebay.OPERATIONS[op] for op in trace["op"]] == [record["op"] for record in records]
assert [trace.files[file] for file in trace["file"]] == [record["file"] for record in records]
assert trace.has_flag("no-result").tolist() == ["no-result" in record["flags"] for record in records]
parts = list(forebay.batches(trace_path, records=999))
assert [part.rows for part in parts[:-1]] == [999] * (len(parts) - 1)
for name in trace:
    assert numpy.array_equal(numpy.concatenate([part[name] for part in parts]), trace[name]), name

# The same in Arrow, operations and files by name.
table = trace.table()
assert isinstance(table, pyarrow.Table) and table.num_rows == trace.rows
assert table["op"].to_pylist() == [record["op"] for record in records]
assert table["file"].to_pylist() == [record["file"] for record in records]
assert table["other"].null_count == trace.rows

# Curves.
told = json.loads(analyze_path.read_text())
found = forebay.analyze(trace_path, chunk_bytes=CHUNK)
assert found.footprint_bytes == told["chunks"] * CHUNK and found.kept_share == told["kept_share"] == 1.0
assert found.locality == told["r_buf"]
for policy, ratios in told["miss_ratios"].items():
    assert found.miss_ratios(policy, told["capacity_bytes"]).tolist() == ratios, policy
reads, writes = found.reuse_distances()
for kind, counts in (("reads", reads), ("writes", writes)):
    told_uses = sum(uses for _, uses in told["reuse"][kind]["uses_from_distance"])
    assert counts.sum() == told_uses, kind

# Sweeps, whole and in parts.
told = json.loads(sim_path.read_text())
study = forebay.Study(trace_path, chunk_bytes=CHUNK)
asked = {"policies": ["lru", "belady"], "granularities": ["chunk", "file"], "write_backs": ["sync", "async"], "nodes": [1, 4]}
whole = study.sweep([1 << 20, 1 << 22, 1 << 30], **asked)
assert whole.rows == len(told) == 48, (whole.rows, len(told))
for at, row in enumerate(told):
    for name in ("capacity_bytes", "policy", "granularity", "write_back", "nodes"):
        assert whole[name][at] == row[name], (at, name)
    assert whole["infeasible"][at] == (row["infeasible"] or ""), at
    if row["infeasible"] is None:
        names = ("IS_bytes", "RHS_bytes", "RMS_bytes", "WS_bytes", "WBS_bytes")
        assert [whole[name][at] for name in names] == row["bytes"], at
        # The command's numbers went through text.
        numpy.testing.assert_allclose(whole["miss_ratio"][at], row["miss_ratio"], rtol=1e-12)
        numpy.testing.assert_allclose(whole["full_actual_bytes_per_s"][at], row["full"][1], rtol=1e-12)
        numpy.testing.assert_allclose(whole["paper_ratio"][at], row["paper"][2], rtol=1e-12)
    else:
        assert numpy.isnan(whole["miss_ratio"][at]), at
assert any(row["infeasible"] for row in told), "a file does not fit into the smallest buffer"
parts = [study.sweep([1 << 20, 1 << 22, 1 << 30], **asked, part=(part, 5)) for part in range(5)]
for part, found in enumerate(parts):
    for name in whole:
        assert numpy.array_equal(found[name], whole[name][part::5], equal_nan=whole[name].dtype.kind == "f"), (part, name)
joined = forebay.concatenate(parts)
assert numpy.array_equal(numpy.sort(joined["WBS_bytes"]), numpy.sort(whole["WBS_bytes"]), equal_nan=True)
assert whole.table().num_rows == 48
empty = study.sweep([1 << 20], part=(1, 2))
assert empty.rows == 0 and list(empty) == list(whole)


def fails(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"nothing failed for {text}")


fails(FileNotFoundError, "/nowhere", lambda: forebay.read("/nowhere"))
fails(forebay.TraceError, "no known format", lambda: forebay.read(__file__))
fails(ValueError, "there are fbt, muse", lambda: forebay.read(trace_path, format="x"))
fails(ValueError, "there are fifo, lru", lambda: study.sweep([1 << 20], policies=["x"]))
fails(ValueError, "power of two", lambda: forebay.Study(trace_path, chunk_bytes=3))
fails(ValueError, "below the second", lambda: study.sweep([1 << 20], part=(2, 2)))
fails(ValueError, "above 0", lambda: study.sweep([1 << 20], home_rate=0))
print("everything agrees")
