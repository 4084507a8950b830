"""Runs tests, each in a process of its own, under a watchdog, several beside each other."""

import os
import re
import select
import signal
import subprocess
import tempfile
import threading
import time
import traceback
from dataclasses import dataclass, field
from enum import Enum

import machine

# Idle share of the processors' time, over so many seconds, above which one more test runs beside the others, and below which one fewer
# does.
IDLE, BUSY = 0.2, 0.05
LOOK = 0.3


class Verdict(Enum):
    PASSED = "ok"
    FAILED = "FAILED"
    SKIPPED = "skipped"
    FLAKY = "FLAKY"


@dataclass
class Outcome:
    """Result of a test."""

    test: object
    verdict: Verdict
    seconds: float = 0.0
    # Of processors, by the test and by what it has started and waited for.
    processor: float = 0.0
    output: str = ""
    reason: str = ""
    # Of the run alone, where the first one failed.
    again: str = ""
    # A whole program reports each of its tests.
    parts: list = field(default_factory=list)


RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored\b", re.M)
SKIPPED = re.compile(r"SKIPPED: ([^:\n]+): ([^\n]*)")
IGNORED = re.compile(r"^test .* \.\.\. ignored(?:, (.*))?$", re.M)
# libtest's line and libtest-mimic's.
LINE = re.compile(r"^test (\S.*?)(?: - should panic)? +\.\.\. (ok|FAILED|ignored)(?:, (.*))?", re.M)


class Runner:
    """Runs `jobs` tests beside each other, and up to `most` while processors are idle: many tests wait. Each has `watchdog` seconds
    times `scale`."""

    def __init__(self, jobs, most, watchdog, scale, environment, report):
        self.jobs, self.most, self.watchdog, self.scale = jobs, most, watchdog, scale
        self.environment, self.report = environment, report
        self.stopped = threading.Event()
        # Set once a run has ended at its first failure.
        self.cut_short = False
        self._running = set()
        self._lock = threading.Lock()
        # Notified when more workers may be allowed, when no test is left to take, and at the stop.
        self._changed = threading.Condition(self._lock)

    def run(self, tests, ignored=False, until_failure=False):
        """Runs tests in their order, as workers come free, and returns their outcomes: of all, or until one fails twice."""
        queue, outcomes, allowed = list(reversed(tests)), [], self.jobs

        def take(place):
            with self._changed:
                self._changed.wait_for(lambda: place < allowed or not queue or self.stopped.is_set())
                return queue.pop() if queue and not self.stopped.is_set() else None

        def work(place):
            while test := take(place):
                try:
                    outcome = self.once(test, ignored)
                except Exception:  # of the suite itself: no test may be lost
                    outcome = Outcome(test, Verdict.FAILED, output=traceback.format_exc())
                if self.stopped.is_set():
                    return
                with self._lock:
                    outcomes.append(outcome)
                    self.report(outcome)
                if until_failure and outcome.verdict is Verdict.FAILED and self.once(test, ignored).verdict is Verdict.FAILED:
                    with self._lock:
                        queue.clear()
                        self.cut_short = True

        workers = [threading.Thread(target=work, args=(place,)) for place in range(min(self.most, len(tests)))]
        for worker in workers:
            worker.start()
        while queue and not self.stopped.is_set():
            idle = machine.idle(LOOK)
            with self._changed:
                allowed = max(self.jobs, min(self.most, allowed + (idle > IDLE) - (idle < BUSY)))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()
        for worker in workers:
            worker.join()
        if len(outcomes) != len(tests) and not self.cut_short and not self.stopped.is_set():
            raise RuntimeError(f"{len(tests)} tests have {len(outcomes)} outcomes")
        return outcomes

    def stop(self):
        """Ends what runs; `run` returns soon."""
        with self._changed:
            self.stopped.set()
            self._changed.notify_all()
            running = list(self._running)
        for session in running:
            end_session(session)

    def command(self, words, folder, environment, limit):
        """Runs a command in a session of its own, with a watchdog; returns its status, its output and its processor seconds."""
        with tempfile.TemporaryFile() as file:
            process = subprocess.Popen(words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=file,
                                       stderr=subprocess.STDOUT, start_new_session=True)
            with self._lock:
                self._running.add(process.pid)
            if self.stopped.is_set():
                end_session(process.pid)
            ended = wait(process, limit * self.scale)
            if not ended:
                end_session(process.pid)
            usage = reap(process)
            with self._lock:
                self._running.discard(process.pid)
            file.seek(0)
            output = file.read().decode(errors="replace")
        if not ended:
            output += f"\nended by the watchdog after {limit * self.scale:.0f} s\n"
        return (process.returncode if ended else None), output, usage

    def once(self, test, ignored=False):
        """Runs one test, or one whole program."""
        program = test.program
        environment = dict(self.environment, CARGO_MANIFEST_DIR=program.folder)
        if test.whole:
            arguments = ["--show-output", "--test-threads=2"]
        else:
            arguments = ["--exact", test.name, "--nocapture"]
        start = time.monotonic()
        words = [program.path, *arguments, *(["--ignored"] if ignored else [])]
        status, output, processor = self.command(words, program.folder, environment, self.watchdog(test))
        seconds = time.monotonic() - start
        verdict, reason, parts = judge(test, status, output)
        return Outcome(test, verdict, seconds, processor, output, reason, parts=parts)


def of_lines(output, skipped):
    """Returns (name, verdict, reason) for each line of a test. `skipped` has the reasons of tests that say so of themselves, by the
    name or the end of the name."""
    parts = []
    for name, word, reason in LINE.findall(output):
        if word != "ignored":
            reason = next((why for one, why in skipped.items() if name == one or name.endswith("::" + one)), "")
        is_skipped = word == "ignored" or reason
        verdict = Verdict.FAILED if word == "FAILED" else Verdict.SKIPPED if is_skipped else Verdict.PASSED
        parts.append((name, verdict, reason or ("ignored" if is_skipped else "")))
    return parts


def judge(test, status, output):
    """Reads a verdict, a reason and, of a whole program, the parts from a status and an output."""
    result = RESULT.findall(output)
    passed, failed, ignored = (int(n) for n in result[-1]) if result else (0, 0, 0)
    skipped = {name: reason for name, reason in SKIPPED.findall(output)}
    if test.whole:
        parts = of_lines(output, skipped)
        bad = status != 0 or not result or failed or len(parts) != passed + failed + ignored
        return (Verdict.FAILED if bad else Verdict.PASSED), "", parts
    if status != 0 or not result or failed:
        return Verdict.FAILED, "", []
    if skipped:
        return Verdict.SKIPPED, next(iter(skipped.values())), []
    if passed == 0 and ignored == 1:
        found = IGNORED.search(output)
        return Verdict.SKIPPED, (found and found.group(1)) or "ignored", []
    # A name that the program does not have would pass without any test.
    return (Verdict.PASSED, "", []) if passed == 1 else (Verdict.FAILED, "ran no test", [])


def wait(process, seconds):
    """Waits for a process's end; false if it still runs after so many seconds."""
    handle = os.pidfd_open(process.pid)
    try:
        return bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)


def reap(process):
    """Takes a process's status; returns its processor seconds, with those of what it has waited for."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def end_session(session):
    """Kills every process of a session: a test's programs may have process groups of their own."""
    for _ in range(3):
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.getsid(int(pid)) == session:
                    os.kill(int(pid), signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
