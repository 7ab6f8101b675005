#!/usr/bin/env python3
"""Sums of squares, by MPI: sum.py ROUNDS. A checkpoint, one file for each rank, after each round."""
import glob
import os
import shutil
import sys
import time

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, ranks = world.Get_rank(), world.Get_size()
rounds = int(sys.argv[1])

done, total = 0, 0

if saved := glob.glob("ck.*"):
    done = max(int(name.split(".")[1]) for name in saved)
    with open(f"ck.{done}/rank.{rank}") as file:
        total = int(file.read())
    print(f"rank {rank} resumes after round {done}", flush=True)

while done < rounds:
    total += sum(n * n for n in range(done * 1000 + rank, done * 1000 + 1000, ranks))
    time.sleep(0.4)  # a real computation takes longer
    done += 1
    os.makedirs("tmp", exist_ok=True)
    with open(f"tmp/rank.{rank}", "w") as file:
        file.write(str(total))
    world.Barrier()
    # The files of all ranks are there: renamed in one step, they are one checkpoint, always whole.
    if rank == 0:
        os.rename("tmp", f"ck.{done}")
        shutil.rmtree(f"ck.{done - 1}", ignore_errors=True)
    world.Barrier()

sums = world.gather(total)
if rank == 0:
    with open("sum.txt", "w") as result:
        print(sum(sums), file=result)
