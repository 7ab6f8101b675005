#!/usr/bin/env python3
"""A time series: series.py ROWS. It opens, writes and closes series.h5 for each row."""
import shutil
import sys
import time

import h5py

rows = int(sys.argv[1])

with h5py.File("series.h5", "a") as file:
    if "x" not in file:
        file.create_dataset("x", shape=(0,), maxshape=(None,), dtype="f8")
    done = len(file["x"])
    last = file["x"][-1] if done else 0.4

if done:
    print(f"resumes after row {done}", flush=True)
for row in range(done, rows):
    last = 3.9 * last * (1 - last)
    time.sleep(0.4)  # a real computation takes longer
    # While a file is open, it may be incomplete on the disk. So it is opened only for the row, and closed at once.
    with h5py.File("series.h5", "a") as file:
        file["x"].resize((row + 1,))
        file["x"][row] = last

shutil.copyfile("series.h5", "final.h5")
