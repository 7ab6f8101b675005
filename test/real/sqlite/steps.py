#!/usr/bin/env python3
# A computation that keeps its state in sim.db, in WAL mode: three steps with the database open, each a transaction
# of its own, then a pause with it closed. Goes on from the last step in it, until a file `stop` appears. Each row is
# a hash of the one before, so that a row that is missing or of another time is seen.
import contextlib
import hashlib
import os
import sqlite3
import sys
import time


@contextlib.contextmanager
def database():
    db = sqlite3.connect("sim.db", isolation_level=None)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE IF NOT EXISTS steps (step INTEGER PRIMARY KEY, hash TEXT, ballast BLOB)")
        yield db
    finally:
        db.close()


def following(step, previous):
    return hashlib.sha256(f"{step} {previous}".encode()).hexdigest()


def resume(db):
    problems = [text for (text,) in db.execute("PRAGMA integrity_check") if text != "ok"]
    last, seen = 0, ""
    for step, found in db.execute("SELECT step, hash FROM steps ORDER BY step"):
        if step != last + 1 or found != following(step, seen):
            problems.append(f"row {step} does not follow row {last}")
        last, seen = step, found
    if problems:
        sys.exit("sim.db is damaged: " + "; ".join(problems))
    return last, seen


def say(word, step, text):
    print(word, step, text or "-", flush=True)


with database() as opened:
    step, last = resume(opened)
say("from", step, last)
while not os.path.exists("stop"):
    with database() as opened:
        for _ in range(3):
            step, last = step + 1, following(step + 1, last)
            opened.execute("INSERT INTO steps VALUES (?, ?, ?)", (step, last, os.urandom(2000)))
            time.sleep(0.05)
    say("at", step, last)
    time.sleep(0.15)
