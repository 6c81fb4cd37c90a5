"""The processes of one side of a benchmark between ranks: rank 0 takes orders, a line each, and answers with a line of JSON."""
import json
import os
import socket
import subprocess
import sys


class RankGroup:
    """`side` is its name in messages, `command` what every rank runs, on one thread."""

    def __init__(self, side, command, ranks):
        self.side = side
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.processes = []
        for rank in range(ranks):
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks),
                           "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE} if rank == 0 else {"stdin": subprocess.DEVNULL}
            self.processes.append(subprocess.Popen(command, text=True, env=environment, **streams))

    def __call__(self, *words):
        first = self.processes[0]
        first.stdin.write(" ".join(str(word) for word in words) + "\n")
        first.stdin.flush()
        line = first.stdout.readline()
        if not line:
            sys.exit(f"rank 0 of {self.side} ended with {first.wait()} at {words}")
        return json.loads(line)

    def close(self):
        self.processes[0].stdin.close()
        for process in self.processes:
            if process.wait() != 0:
                sys.exit(f"a rank of {self.side} ended with {process.returncode}")
