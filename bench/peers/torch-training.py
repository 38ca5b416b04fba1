# The training of ../ranks/training.mjs in PyTorch: the same models, batch, optimizer and windows, one thread a process.
# --way alone, ddp (two processes, DistributedDataParallel over Gloo) or horovod (under horovodrun).
import argparse
import json
import os
import statistics
import time

import torch
import torch.nn as nn


def build(name):
    if name == "mlp":
        return nn.Sequential(
            nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
        ), (784,)
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10),
    ), (1, 28, 28)


def run(rank, flags):
    torch.set_num_threads(1)
    torch.manual_seed(7)
    model, shape = build(flags.model)
    optimizers = {"sgd": lambda p: torch.optim.SGD(p, 0.01), "adam": lambda p: torch.optim.Adam(p, 0.001)}
    if flags.way == "ddp":
        torch.distributed.init_process_group("gloo", init_method=flags.store, rank=rank, world_size=2)
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = optimizers[flags.optimizer](model.parameters())
    if flags.way == "horovod":
        import horovod.torch as hvd

        hvd.init()
        rank = hvd.rank()
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    inputs = torch.randn(flags.batch, *shape)
    labels = torch.arange(flags.batch) % 10
    loss_of = nn.CrossEntropyLoss()

    def train(steps):
        for _ in range(steps):
            optimizer.zero_grad()
            loss = loss_of(model(inputs), labels)
            loss.backward()
            optimizer.step()
            loss.item()

    train(flags.warmup)
    rates = []
    for _ in range(flags.windows):
        start = time.perf_counter()
        train(flags.steps)
        rates.append(flags.steps * flags.batch / (time.perf_counter() - start))
    if rank == 0:
        print(json.dumps({"rate": statistics.median(rates)}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ["model", "optimizer", "way"]:
        parser.add_argument(f"--{name}")
    for name in ["batch", "warmup", "steps", "windows"]:
        parser.add_argument(f"--{name}", type=int)
    flags = parser.parse_args()
    if flags.way == "ddp":
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            flags.store = f"file://{os.path.join(folder, 'store')}"
            torch.multiprocessing.spawn(run, (flags,), nprocs=2)
    else:
        run(0, flags)
