#!/usr/bin/env python3
"""Counts the instructions of the preloaded library that a message or a short connection takes, and the cache lines of code
that they lie in.

The count does not depend on the machine's load: the program is stepped through, one instruction after the other (ptrace).
Usage: tools/steps/steps.py [--messages N] [--functions] [--sovia PROGRAM]
"""

import argparse
import bisect
import collections
import ctypes
import os
import re
import signal
import subprocess
import sys
import tempfile

CONT, SINGLESTEP, SEIZE, INTERRUPT, GETREGS = 7, 9, 0x4206, 0x4207, 12
EXITKILL = 1 << 20
RIP = 16
LINE = 64
RUNS = 3
LIBRARY = "libsovia_preload.so"
PARTS = {
    False: ["write", "read"],
    True: ["socket, connect", "accept", "first write", "first read", "other calls", "close by the connector", "close by the acceptor"],
}

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def ptrace(request, pid, data=None):
    if libc.ptrace(request, pid, None, data) < 0:
        error = ctypes.get_errno()
        os.kill(pid, signal.SIGKILL)
        sys.exit(f"cannot trace process {pid}: {os.strerror(error)}")


def begun(command):
    """Starts the program and traces it from where it stops itself. Returns its id."""
    child = subprocess.Popen(command)
    _, status = os.waitpid(child.pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        sys.exit(f"{' '.join(command)} ended before it was counted")
    # The kernel ends the program with this process; without a tracer it would stay stopped.
    ptrace(SEIZE, child.pid, EXITKILL)
    ptrace(INTERRUPT, child.pid)
    os.waitpid(child.pid, 0)
    os.kill(child.pid, signal.SIGCONT)
    return child.pid


def stepped(pid):
    """Steps through the program from its first mark to its end. Yields the addresses of each part's instructions."""
    registers = (ctypes.c_ulonglong * 27)()
    part = None
    while True:
        ptrace(CONT if part is None else SINGLESTEP, pid)
        _, status = os.waitpid(pid, 0)
        if not os.WIFSTOPPED(status):
            return
        if os.WSTOPSIG(status) == signal.SIGUSR1:
            if part is not None:
                yield part
            part = []
        elif part is not None:
            ptrace(GETREGS, pid, ctypes.byref(registers))
            part.append(registers[RIP])


def mapped(pid):
    """Returns the library's path, and a function from an address in the process to one in the file; `None` elsewhere."""
    ranges = []
    with open(f"/proc/{pid}/maps") as maps:
        for line in maps:
            words = line.split()
            if "x" in words[1] and words[-1].endswith(LIBRARY):
                begin, end = (int(word, 16) for word in words[0].split("-"))
                ranges.append((begin, end, int(words[2], 16)))
                path = words[-1]
    if not ranges:
        sys.exit(f"cannot count instructions: the program has no {LIBRARY}")
    headers = subprocess.run(["readelf", "-lW", path], check=True, capture_output=True, text=True).stdout
    loads = [[int(word, 16) for word in found] for found in re.findall(r"LOAD\s+0x(\w+)\s+0x(\w+)\s+0x\w+\s+0x(\w+)", headers)]

    def place(address):
        for begin, end, offset in ranges:
            if begin <= address < end:
                at = address - begin + offset
                return next(virtual + at - first for first, virtual, size in loads if first <= at < first + size)
        return None

    return path, place


def functions(path):
    """Returns a function from an address in the file to the name of the function there."""
    listed = subprocess.run(["nm", "-C", "-n", path], check=True, capture_output=True, text=True).stdout
    names = [line.split(None, 2) for line in listed.splitlines() if re.match(r"\w+ [tTwW] ", line)]
    addresses = [int(words[0], 16) for words in names]
    return lambda address: names[max(bisect.bisect_right(addresses, address) - 1, 0)][2]


def counted(command):
    """Runs the program. Returns the library's path, and the places in that file of each part's instructions."""
    pid = begun(command)
    path, place = mapped(pid)
    return path, [[at for at in map(place, part) if at is not None] for part in stepped(pid)]


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--messages", type=int, default=0, metavar="N", help="a connection of N messages each way instead of one message on a VI")
    options.add_argument("--functions", action="store_true", help="list the functions, those with the most instructions first")
    options.add_argument("--sovia", default="target/release/sovia", metavar="PROGRAM", help="the `sovia` to count (%(default)s)")
    chosen = options.parse_args()
    if os.uname().machine != "x86_64":
        sys.exit("cannot count instructions: this is not an x86-64 machine")
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "program")
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program.c")
        subprocess.run(["cc", "-O2", "-o", program, source], check=True)
        runs = [counted([chosen.sovia, "run", "--", program, str(chosen.messages)]) for _ in range(RUNS)]
    # A run is longer if a thread of the library looks at the connection in between.
    path, parts = min(runs, key=lambda run: sum(map(len, run[1])))
    name = functions(path)
    print(f"{'instructions':>12} {'code lines':>10}")
    for part, addresses in zip(PARTS[chosen.messages > 0], parts, strict=True):
        print(f"{len(addresses):>12} {len({at // LINE for at in addresses}):>10}  {part}")
    every = [at for part in parts for at in part]
    print(f"{len(every):>12} {len({at // LINE for at in every}):>10}  all of it")
    if chosen.functions:
        for function, count in collections.Counter(map(name, every)).most_common():
            print(f"{count:>12} {'':>10}  {function}")


if __name__ == "__main__":
    main()
