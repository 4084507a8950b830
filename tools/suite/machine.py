"""Measures how slow this machine is now, and keeps what earlier runs took."""

import json
import os
import subprocess
import sys
import time

# Processor seconds of `WORK` on the machine whose watchdogs the plan states: a Xeon of 2023, quiet.
REFERENCE = 0.25
WORK = "n = 0\nfor i in range(3_000_000): n += i & 7"


def scale():
    """Returns the factor for watchdogs: how much longer a fixed piece of work takes here, now, on every processor at once."""
    begin = time.monotonic()
    workers = [subprocess.Popen([sys.executable, "-S", "-c", WORK]) for _ in range(processors())]
    for worker in workers:
        worker.wait()
    return max(1.0, (time.monotonic() - begin) / REFERENCE)


def processors():
    """Returns the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


def idle(seconds):
    """Returns the share of this process's processors' time that is idle, over so many seconds from now."""
    idle_before, all_before = processor_time()
    time.sleep(seconds)
    idle_after, all_after = processor_time()
    # The time that a processor waits for a disk may fall.
    return min(1, max(0, idle_after - idle_before) / max(1, all_after - all_before))


def processor_time():
    """Returns the processors' idle time and their whole time since the machine started, in ticks."""
    mine = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    with open("/proc/stat", encoding="ascii") as file:
        lines = [line.split() for line in file]
    # Guests' time, behind the first eight, is part of the others.
    ticks = [[int(word) for word in line[1:9]] for line in lines if line[0] in mine]
    return sum(each[3] + each[4] for each in ticks), sum(map(sum, ticks))


class Durations:
    """Seconds that each test took when it last ran here, to start long ones first."""

    def __init__(self, path):
        self.path, self.seconds = path, {}
        try:
            with open(path, encoding="utf-8") as file:
                self.seconds = json.load(file)
        except (OSError, ValueError):
            pass

    def of(self, test, default):
        """Returns the seconds of a test, or a default."""
        return self.seconds.get(str(test), default)

    def add(self, outcomes):
        """Notes what tests took, and stores it for the next run."""
        for outcome in outcomes:
            self.seconds[str(outcome.test)] = round(outcome.seconds, 2)
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            json.dump(self.seconds, file)
        os.replace(self.path + ".new", self.path)
