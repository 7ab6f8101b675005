#!/usr/bin/env python3
"""Fits a line by gradient descent: train.py EPOCHS. A checkpoint after each epoch."""
import os
import sys
import time

import torch

epochs = int(sys.argv[1])
torch.manual_seed(1)
x = torch.rand(1000, 1)
y = 3 * x - 1 + 0.1 * torch.randn(1000, 1)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
done = 0

if os.path.exists("train.pt"):
    state = torch.load("train.pt", map_location="cpu")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["random"])  # on GPUs also torch.cuda.set_rng_state_all
    done = state["done"]
    print(f"resumes after epoch {done}", flush=True)

while done < epochs:
    for batch in torch.randperm(1000).split(100):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x[batch]), y[batch]).backward()
        optimizer.step()
    time.sleep(0.4)  # a real computation takes longer
    done += 1
    torch.save(
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "random": torch.get_rng_state(),
            "done": done,
        },
        "train.tmp",
    )
    os.replace("train.tmp", "train.pt")  # a dying process renames nothing: train.pt is always whole

torch.save(model.state_dict(), "model.pt")
with open("model.txt", "w") as text:
    print(model.weight.item(), model.bias.item(), file=text)
