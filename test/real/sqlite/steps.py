#!/usr/bin/env python3
# A computation that keeps its state in sim.db, in WAL mode: three steps with the database open, each a transaction
# of its own, then a pause with it closed. The database is large from the start on: on a busy machine, to hash and
# compress it takes longer than one of these pauses. Goes on from the last step in it, until a file `stop` appears. Each
# row is a hash of the one before, so that a row that is missing or of another time is seen.
import contextlib
import hashlib
import os
import sqlite3
import sys
import time

ROW_BYTES = 20_000
FIRST_BYTES = 30_000_000


def ballast(size):
    """Compresses to about half its size, as text does, and costs as much time."""
    return os.urandom(size // 2).hex()


@contextlib.contextmanager
def database():
    db = sqlite3.connect("sim.db", isolation_level=None)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE IF NOT EXISTS steps (step INTEGER PRIMARY KEY, hash TEXT, ballast TEXT)")
        yield db
    finally:
        db.close()


def fill(db):
    if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'first'").fetchone():
        return
    db.execute("BEGIN")
    db.execute("CREATE TABLE first (ballast TEXT)")
    for _ in range(FIRST_BYTES // ROW_BYTES):
        db.execute("INSERT INTO first VALUES (?)", (ballast(ROW_BYTES),))
    db.execute("COMMIT")


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
    fill(opened)
say("from", step, last)
while not os.path.exists("stop"):
    with database() as opened:
        for _ in range(3):
            step, last = step + 1, following(step + 1, last)
            opened.execute("INSERT INTO steps VALUES (?, ?, ?)", (step, last, ballast(ROW_BYTES)))
            time.sleep(0.05)
    say("at", step, last)
    time.sleep(0.15)
