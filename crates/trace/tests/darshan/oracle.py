"""Prints what Darshan's own library reads from a log: one JSON line for each record of DXT_POSIX, DXT_MPIIO and HEATMAP.

Usage: oracle.py LIBRARY LOG...; the library comes with the package `darshan` of PyPI. Only the standard library is needed beside it.
"""

import ctypes
import json
import struct
import sys

library = ctypes.CDLL(sys.argv[1])
library.darshan_log_open.restype = ctypes.c_void_p
libc = ctypes.CDLL(None)
libc.free.argtypes = [ctypes.c_void_p]


class Module(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("bytes", ctypes.c_int), ("version", ctypes.c_int), ("place", ctypes.c_int), ("partial", ctypes.c_int)]


class Name(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint64), ("name", ctypes.c_char_p)]


def say(**what):
    print(json.dumps(what))


def dxt(module, address):
    """A file's segments: the header has 104 bytes, each segment 32, writes first."""
    head = ctypes.string_at(address, 104)
    identity, rank, _ = struct.unpack_from("<Qqq", head)
    host = head[24:88].split(b"\0")[0].decode()
    writes, reads = struct.unpack_from("<qq", head, 88)
    body = ctypes.string_at(address + 104, 32 * (writes + reads))
    for number, segment in enumerate(struct.iter_unpack("<qqdd", body)):
        op = "write" if number < writes else "read"
        say(module=module, id=identity, rank=rank, host=host, op=op, offset=segment[0], length=segment[1], start=segment[2], end=segment[3])


def heatmap(address):
    identity, rank, width, bins, writes, reads = struct.unpack("<QqdqQQ", ctypes.string_at(address, 48))
    sums = {}
    for op, place in (("write", writes), ("read", reads)):
        sums[op] = list(struct.unpack(f"<{bins}q", ctypes.string_at(place, 8 * bins)))
    say(module="HEATMAP", id=identity, rank=rank, width=width, **sums)


for path in sys.argv[2:]:
    log = ctypes.c_void_p(library.darshan_log_open(path.encode()))
    if not log.value:
        sys.exit(f"{path} cannot be opened")
    job = ctypes.create_string_buffer(4096)
    library.darshan_log_get_job(log, job)
    _, seconds, nanoseconds, _, _, processes, identity = struct.unpack_from("<7q", job)
    say(log=path, start_s=seconds, start_ns=nanoseconds, processes=processes, job=identity)
    names, count = ctypes.POINTER(Name)(), ctypes.c_int()
    library.darshan_log_get_name_records(log, ctypes.byref(names), ctypes.byref(count))
    say(names={str(names[number].id): names[number].name.decode() for number in range(count.value)})
    modules, count = ctypes.POINTER(Module)(), ctypes.c_int()
    library.darshan_log_get_modules(log, ctypes.byref(modules), ctypes.byref(count))
    for number in range(count.value):
        module = modules[number]
        name = module.name.decode()
        if name not in ("DXT_POSIX", "DXT_MPIIO", "HEATMAP"):
            continue
        say(partial=name, value=module.partial)
        while True:
            record = ctypes.c_void_p()
            result = library.darshan_log_get_record(log, module.place, ctypes.byref(record))
            if result < 0:
                sys.exit(f"{path}: {name} cannot be read")
            if result == 0:
                break
            if name == "HEATMAP":
                heatmap(record.value)
            else:
                dxt(name, record.value)
            libc.free(record)
    library.darshan_log_close(log)
