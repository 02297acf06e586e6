"""Several processes write into one SQLite database at once; one of them is killed in the middle and started again.

Usage: sqlite_writers.py DATABASE wal|delete|truncate|persist ROWS TOLD_DIRECTORY
       sqlite_writers.py --check DATABASE TOLD_DIRECTORY    (after a crash: all that was told is there)

Each writer tells, in a file of its own in TOLD_DIRECTORY, the last row whose commit it was told of.
"""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

WRITERS = 3


def connect(database):
    connection = sqlite3.connect(database, timeout=120, isolation_level=None)
    connection.execute("pragma synchronous=full")
    return connection


def write(database, writer, first, rows, told):
    connection = connect(database)
    with open(told, "a", buffering=1) as told_file:
        for row in range(first, rows):
            connection.execute("begin immediate")
            connection.execute("insert into rows values (?, ?, ?)", (writer, row, f"{writer}-{row}-" + "x" * (row % 700)))
            connection.execute("update totals set count = count + 1 where writer = ?", (writer,))
            connection.execute("commit")
            told_file.write(f"{row}\n")


def start(database, writer, first, rows, told):
    return subprocess.Popen([sys.executable, __file__, "--write", database, str(writer), str(first), str(rows), str(told)])


def told_file(folder, database, writer):
    return folder / f"told-{Path(database).name}-{writer}"


def last_told(told):
    lines = told.read_text().split() if told.exists() else []
    return int(lines[-1]) if lines else -1


def check(database, folder):
    connection = connect(database)
    assert connection.execute("pragma integrity_check").fetchone()[0] == "ok"
    for writer in range(WRITERS):
        told = last_told(told_file(folder, database, writer))
        rows = [row for (row,) in connection.execute("select row from rows where writer = ? order by row", (writer,))]
        count = connection.execute("select count from totals where writer = ?", (writer,)).fetchone()[0]
        assert rows == list(range(len(rows))) and count == len(rows), f"writer {writer}: {count} counted, {len(rows)} there"
        assert len(rows) > told, f"writer {writer}: {len(rows)} rows are there, row {told} was acknowledged"
        if told < 0:
            continue
        text = connection.execute("select text from rows where writer = ? and row = ?", (writer, told)).fetchone()[0]
        assert text == f"{writer}-{told}-" + "x" * (told % 700)


def main():
    if sys.argv[1] == "--check":
        return check(sys.argv[2], Path(sys.argv[3]))
    if sys.argv[1] == "--write":
        database, writer, first, rows, told = sys.argv[2:]
        return write(database, int(writer), int(first), int(rows), told)
    database, mode, rows, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
    connection = connect(database)
    assert connection.execute(f"pragma journal_mode={mode}").fetchone()[0] == mode
    connection.execute("create table rows (writer integer, row integer, text text, primary key (writer, row))")
    connection.execute("create table totals (writer integer primary key, count integer)")
    connection.executemany("insert into totals values (?, 0)", [(writer,) for writer in range(WRITERS)])
    told = [told_file(folder, database, writer) for writer in range(WRITERS)]
    processes = [start(database, writer, 0, rows, told[writer]) for writer in range(WRITERS)]
    deadline = time.monotonic() + 150
    # A writer that fails has met a file system that is gone: then there is nothing to wait for. One that is done is only faster.
    while last_told(told[0]) < rows // 3 and time.monotonic() < deadline and all(p.poll() in (None, 0) for p in processes):
        time.sleep(0.005)
    processes[0].send_signal(signal.SIGKILL)
    processes[0].wait()
    survived = connection.execute("select coalesce(max(row), -1) from rows where writer = 0").fetchone()[0]
    assert survived >= last_told(told[0]), f"{survived} is there, {last_told(told[0])} was acknowledged"
    processes[0] = start(database, 0, survived + 1, rows, told[0])
    for process in processes:
        assert process.wait() == 0
    assert connection.execute("pragma integrity_check").fetchone()[0] == "ok"
    assert connection.execute("select writer, count(*) from rows group by writer").fetchall() == [(w, rows) for w in range(WRITERS)]
    assert connection.execute("select count from totals order by writer").fetchall() == [(rows,)] * WRITERS
    connection.close()


main()
