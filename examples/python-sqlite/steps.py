#!/usr/bin/env python3
"""A chain of hashes in SQLite, each of the one before: steps.py STEPS."""
import contextlib
import hashlib
import sqlite3
import sys
import time

steps = int(sys.argv[1])


def database():
    db = sqlite3.connect("sim.db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("CREATE TABLE IF NOT EXISTS steps (step INTEGER PRIMARY KEY, hash TEXT)")
    return contextlib.closing(db)


with database() as db:
    done, last = db.execute("SELECT step, hash FROM steps ORDER BY step DESC LIMIT 1").fetchone() or (0, "")
if done:
    print(f"resumes after step {done}", flush=True)

while done < steps:
    with database() as db:
        done += 1
        last = hashlib.sha256(f"{done} {last}".encode()).hexdigest()
        db.execute("INSERT INTO steps VALUES (?, ?)", (done, last))
    # Closed for a while: only then can capture copy the database.
    time.sleep(0.4)  # a real computation takes longer

with database() as db, open("steps.txt", "w") as rows:
    for step, hash in db.execute("SELECT step, hash FROM steps ORDER BY step"):
        print(step, hash, file=rows)
