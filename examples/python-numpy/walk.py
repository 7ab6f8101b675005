#!/usr/bin/env python3
"""10,000 random walkers: walk.py ROUNDS. A checkpoint after each round of 100 steps."""
import json
import os
import sys
import time

import numpy as np

rounds = int(sys.argv[1])
random = np.random.default_rng(1)
done, position = 0, np.zeros((10_000, 3))

if os.path.exists("walk.npz"):
    with np.load("walk.npz") as saved:
        done, position = int(saved["done"]), saved["position"]
        # Without the state of the generator, the rest of the run would draw other numbers.
        random.bit_generator.state = json.loads(str(saved["random"]))
    print(f"resumes after round {done}", flush=True)

while done < rounds:
    for _ in range(100):
        position += random.standard_normal(position.shape)
    time.sleep(0.4)  # a real computation takes longer
    done += 1
    np.savez("walk.tmp.npz", done=done, position=position, random=json.dumps(random.bit_generator.state))
    os.replace("walk.tmp.npz", "walk.npz")  # a dying process renames nothing: walk.npz is always whole

np.save("final.npy", position)
