"""Times torch.distributed's Gloo allreduce (float32 sum, in place), one at a time; one JSON line a size on rank 0.

Usage: gloo-allreduce.py RANKS [BYTES...]   (no sizes: 4 B to 256 MiB in steps of 4x)
With RANK and STORE (a file that all ranks see) in the environment it is one rank of them, for ranks on several hosts.
"""
import json, os, statistics, sys, tempfile, time
import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def rank_main(rank, size, store, sizes):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    for bytes_ in sizes:
        x = torch.zeros(bytes_ // 4)
        touched = bytes_ >= 16384
        per = 1 if touched else 50
        rounds = 5 if bytes_ >= 64 << 20 else 15 if bytes_ >= 1 << 20 else 31
        us = []
        for r in range(-2, rounds):
            x.fill_(float(rank) if touched else 0.0)
            dist.barrier()
            start = time.perf_counter()
            for _ in range(per):
                dist.all_reduce(x)
            spent = (time.perf_counter() - start) * 1e6 / per
            if r >= 0:
                us.append(spent)
        if rank == 0:
            print(json.dumps({"peer": "gloo", "bytes": bytes_, "us": round(statistics.median(us), 3)}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    size = int(sys.argv[1])
    sizes = [int(text) for text in sys.argv[2:]] or [4**power for power in range(1, 15)]
    if "RANK" in os.environ:
        rank_main(int(os.environ["RANK"]), size, os.environ["STORE"], sizes)
        sys.exit()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank_main, args=(size, os.path.join(folder, "store"), sizes), nprocs=size)
