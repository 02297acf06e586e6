"""Makes FITS images of one patch of sky for Montage: nine overlapping tiles, each with a background of its own.

Usage: fits.py DIRECTORY
"""

import math
import struct
import sys
from pathlib import Path

SIDE = 160
STEP = 120
DEGREES_PER_PIXEL = 1.0 / 3600
BLOCK_BYTES = 2880


def card(key, value):
    text = f"'{value:<8}'" if isinstance(value, str) else f"{value:>20}"
    return f"{key:<8}= {text}".ljust(80).encode()


def header(column, row):
    # The tiles share one projection centre, and differ in where it lies in their own pixels.
    cards = [
        b"SIMPLE  =                    T".ljust(80),
        card("BITPIX", -32),
        card("NAXIS", 2),
        card("NAXIS1", SIDE),
        card("NAXIS2", SIDE),
        card("CTYPE1", "RA---TAN"),
        card("CTYPE2", "DEC--TAN"),
        card("CRVAL1", 83.6),
        card("CRVAL2", 22.0),
        card("CRPIX1", 200.5 - column * STEP),
        card("CRPIX2", 200.5 - row * STEP),
        card("CDELT1", -DEGREES_PER_PIXEL),
        card("CDELT2", DEGREES_PER_PIXEL),
        card("CROTA2", 0.0),
        card("EQUINOX", 2000.0),
        b"END".ljust(80),
    ]
    text = b"".join(cards)
    return text.ljust(math.ceil(len(text) / BLOCK_BYTES) * BLOCK_BYTES)


def pixels(column, row):
    background = 10.0 * column - 7.0 * row
    for y in range(row * STEP, row * STEP + SIDE):
        for x in range(column * STEP, column * STEP + SIDE):
            star = 500.0 * math.exp(-((x % 50 - 25) ** 2 + (y % 70 - 35) ** 2) / 20.0)
            yield 100.0 + background + star + (x * 31 + y * 17) % 5


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True)
    for row in range(3):
        for column in range(3):
            data = struct.pack(f">{SIDE * SIDE}f", *pixels(column, row))
            data = data.ljust(math.ceil(len(data) / BLOCK_BYTES) * BLOCK_BYTES, b"\0")
            (folder / f"tile-{column}-{row}.fits").write_bytes(header(column, row) + data)


main()
