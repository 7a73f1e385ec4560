"""A command and all processes below it: what it said, how long it took, and the most memory that they held at once."""

import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import psutil

EVERY_S = 0.25
"""Between two looks."""


@dataclass
class Tree:
    """What became of a command.

    Attributes:
        said: its output and errors together.
        code: its exit code.
        seconds: from start to end.
        peak: most resident bytes of all processes at one look; what they share counts for each, except for a process
            that was forked just now and still is the image of its parent: a JVM that starts a shell would count twice.
        cpu: process id -> its seconds of computing at the last look.
    """

    said: str = ""
    code: int = 0
    seconds: float = 0.0
    peak: int = 0
    cpu: dict[int, float] = field(default_factory=dict)

    @property
    def cpu_seconds(self) -> float:
        """Of all processes together; on a busy machine it says more than `seconds`."""
        return sum(self.cpu.values())


def watched(command: Sequence[str], environment: Mapping[str, str]) -> Tree:
    """Run a command to its end and look at its processes meanwhile."""
    tree, started = Tree(), time.perf_counter()
    process = subprocess.Popen(
        list(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(environment)
    )
    watch = threading.Thread(target=_watch, args=(process, tree), daemon=True)
    watch.start()
    tree.said, _ = process.communicate()
    tree.seconds, tree.code = time.perf_counter() - started, process.returncode
    watch.join()
    return tree


def _watch(process: "subprocess.Popen[str]", tree: Tree) -> None:
    root = psutil.Process(process.pid)
    while process.poll() is None:
        sizes: dict[int, int] = {}
        held = 0
        try:
            alive = [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        for one in alive:
            try:
                memory, times, parent = one.memory_info(), one.cpu_times(), one.ppid()
            except psutil.NoSuchProcess:
                continue  # it ended between two looks
            sizes[one.pid] = memory.vms
            if sizes.get(parent) != memory.vms:
                held += memory.rss
            tree.cpu[one.pid] = times.user + times.system
        tree.peak = max(tree.peak, held)
        time.sleep(EVERY_S)
