"""Saves a notebook again and again as editors do: a temporary file, fsync, the old mode, rename over the old one, fsync of the directory.

Usage: atomic_saves.py NOTEBOOK SAVES
"""

import json
import os
import shutil
import sys
import tempfile


def save(path, number):
    folder = os.path.dirname(os.path.abspath(path))
    handle, draft = tempfile.mkstemp(prefix=".~", dir=folder)
    with os.fdopen(handle, "w") as file:
        json.dump({"cells": [{"source": f"print({number})"}] * (1 + number % 50), "save": number, "padding": "x" * (number * 997 % 60000)}, file)
        file.flush()
        os.fsync(file.fileno())
    if os.path.exists(path):
        shutil.copymode(path, draft)
    else:
        os.chmod(draft, 0o640)
    os.replace(draft, path)
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def main():
    path, saves = sys.argv[1], int(sys.argv[2])
    for number in range(saves):
        save(path, number)
        with open(path) as file:
            assert json.load(file)["save"] == number
        shutil.copy2(path, path + ".checkpoint")
    assert os.stat(path).st_mode & 0o777 == 0o640


main()
