"""parsl_workers.py - somebody else's pilot: Parsl keeps Slurm jobs, and each runs a worker of wiremill.

usage: python parsl_workers.py WORKERS PARTITION BROKER [JOIN_FILE]

For a campaign whose broker runs, in a Python that has parsl; `wiremill` is in PATH on the nodes, and the join file (mode 600)
at the same path there: its secret is in no argument. A worker leaves when it is idle for a minute, and Parsl then gives its
job back. SIGTERM, by scancel or at the wall time, drains it: it finishes its batch, and ends with 75.
"""
import sys

import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.launchers import SimpleLauncher
from parsl.providers import SlurmProvider


@parsl.bash_app
def work(broker, join_file, stdout=None, stderr=None):
    import shlex

    key = f"--join-file {shlex.quote(join_file)}" if join_file else ""
    return f"wiremill work --broker {shlex.quote(broker)} {key} --threads 1 --idle-timeout 60 || [ $? = 75 ]"


def main(n, partition, broker, join_file=""):
    provider = SlurmProvider(
        partition=partition, init_blocks=n, max_blocks=n, nodes_per_block=1, cores_per_node=1, exclusive=False,
        walltime="12:00:00", launcher=SimpleLauncher())
    executor = HighThroughputExecutor(label="wiremill", max_workers_per_node=1, provider=provider)
    with parsl.load(Config(executors=[executor])):
        workers = [work(broker, join_file, stdout=f"worker-{i}.out", stderr=f"worker-{i}.log") for i in range(n)]
        return max(worker.result() for worker in workers)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    sys.exit(main(int(sys.argv[1]), *sys.argv[2:]))
