"""The parts that tiers are made of: tests of programs that cargo builds, and scripts that print results as they do."""

import contextlib
import functools
import itertools
import os
import re
import socket
import subprocess
import tempfile
import threading
import time

import plan
import programs
from runner import RESULT, Outcome, Verdict, of_lines

# Test programs of all packages.
FEATURES = ("--workspace",)
WORKSPACE = (*FEATURES, "--tests")
# Examples that the tests of crates/sovia start. `cargo test` would build them as tests.
EXAMPLES = (*FEATURES, *(word for name in ("echo", "mio_echo", "tokio_echo", "zero_copy") for word in ("--example", name)))


class Suite:
    """State that all parts of a run share."""

    def __init__(self, root, target, runner, report, durations, only):
        self.root, self.target, self.runner = root, target, runner
        self.report, self.durations, self.only = report, durations, only
        self._built = {}
        # Ends a part at the first test that fails twice.
        self.stops = False
        # Set if the user has chosen tests by name: a part may have none of them.
        self.filters = False

    @functools.cached_property
    def commit(self):
        """The commit that is checked out; empty without a repository."""
        command = ["git", "rev-parse", "HEAD"]
        return subprocess.run(command, cwd=self.root, check=False, stdout=subprocess.PIPE, text=True).stdout.strip()

    @functools.cached_property
    def change(self):
        """Packages that the change touches."""
        return plan.change(self.root)

    def environment(self, products, more=()):
        """Returns the environment of a part that drives the products of a build: `release`, `debug` or `checked`."""
        environment = dict(self.runner.environment)
        environment.setdefault("SOVIA_BIN", os.path.join(self.target, products, "sovia"))
        for name, library in (("SOVIA_LIB", "libsovia.so"), ("SOVIA_EMP", "libsovia-emp.so"), ("SOVIA_VIPL", "libvipl.so"),
                              ("SOVIA_FI", "fi")):
            environment.setdefault(name, os.path.join(self.target, "release", library))
        environment.update(more)
        return environment

    def build(self, selection, environment):
        """Builds the programs of a selection, once."""
        key = (selection, environment.get("RUSTFLAGS"), environment.get("CARGO_TARGET_DIR"))
        if key not in self._built:
            begin = time.monotonic()
            self._built[key] = programs.build(selection, environment)
            if selection == WORKSPACE:
                programs.build_examples(EXAMPLES, environment)
            self.report.step(f"building cargo test {' '.join(selection)}", time.monotonic() - begin)
        return self._built[key]

    def cargo(self, name, selection, keep, environment, ignored=False):
        """Runs those tests of a selection that `keep` accepts."""
        found = []
        for program in self.build(selection, environment):
            names = programs.tests(program, environment, ignored)
            one = [programs.Test(program, test) for test in names]
            one = [test for test in one if keep(test) and self.only(test)]
            if one and plan.WHOLE.search(str(one[0])):
                one = [programs.Test(program, "*", whole=True)]
            found += one
        self.run(name, found, environment, ignored)

    def run(self, name, tests, environment, ignored=False):
        """Runs tests, the longest first, or the shortest if the first failure ends the run. One that fails runs once more, alone."""
        if not tests:
            if not self.filters:
                raise programs.BuildFailed(f"{name}: no test belongs to it")
            return
        begin = time.monotonic()
        self.report.begin(name, len(tests))
        usual, self.runner.environment = self.runner.environment, environment
        tests.sort(key=lambda test: self.durations.of(test, plan.expected(test)), reverse=not self.stops)
        outcomes = self.runner.run(tests, ignored, self.stops)
        self.durations.add(outcomes)
        self.again([outcome for outcome in outcomes if outcome.verdict is Verdict.FAILED], ignored)
        self.runner.environment = usual
        self.report.add(outcomes)
        self.report.step(f"running {name}", time.monotonic() - begin)

    def again(self, failures, ignored):
        """Runs each failed test once more, alone; one that passes is flaky. Of a whole program that ran to its end only the failed
        tests run again; one that died, or hung, runs again as a whole."""
        for outcome in failures:
            failed = [n for n, (_, verdict, _) in enumerate(outcome.parts) if verdict is Verdict.FAILED]
            if failed and is_complete(outcome):
                flaky = [self._passes(outcome, programs.Test(outcome.test.program, outcome.parts[n][0]), ignored) for n in failed]
                for n in (n for n, passes in zip(failed, flaky) if passes):
                    outcome.parts[n] = (outcome.parts[n][0], Verdict.FLAKY, "")
            else:
                flaky = [self._passes(outcome, outcome.test, ignored)]
            if all(flaky):
                outcome.verdict = Verdict.FLAKY

    def _passes(self, outcome, test, ignored):
        """Runs a test alone and adds its output to an outcome; returns false if it fails."""
        second = self.runner.once(test, ignored)
        outcome.again += second.output
        if test.whole and second.verdict is not Verdict.FAILED:
            outcome.parts = second.parts
        return second.verdict is not Verdict.FAILED

    def script(self, name, command, environment):
        """Runs a command that prints lines as test programs do, or none: then it is one test."""
        with self.beside(name, command, environment):
            pass

    @contextlib.contextmanager
    def beside(self, name, command, environment):
        """Runs such a command while the block runs, and reports it at the end."""
        if not self.only(name):
            yield
            return
        begin, results = time.monotonic(), []
        self.report.begin(name, 1)

        def work():
            results.append((*self.runner.command(command, self.root, environment, plan.SCRIPT), time.monotonic() - begin))

        worker = threading.Thread(target=work)
        worker.start()
        try:
            yield
        except BaseException:
            self.runner.stop()
            raise
        worker.join()
        status, output, processor, seconds = results[0]
        for line in output.splitlines():
            if re.match(r"test result: |FAILED|seed |.*SKIPPED: ", line):
                self.report.line("   " + line)
        self.report.add([of_script(name, status, output, seconds, processor)])
        self.report.step(f"running {name}", seconds)


def is_complete(outcome):
    """Returns true if a whole program printed the result of all its tests."""
    result = RESULT.findall(outcome.output)
    return bool(result) and sum(int(n) for n in result[-1]) == len(outcome.parts)


def of_script(name, status, output, seconds=0.0, processor=0.0):
    """Reads the outcome of a command from what it printed."""
    test = programs.Test(programs.Program("script", name, "", ""), name, whole=True)
    # Test programs that were started, and those that printed a result: one that died printed none.
    started = len(re.findall(r"^ +(?:Running|Doc-tests) ", output, re.M))
    # The watchdog leaves no status.
    failed = status != 0 or started > len(RESULT.findall(output))
    skipped = dict(re.findall(r"SKIPPED: ([^:\n]+): ([^\n]*)", output))
    parts = of_lines(output, skipped)
    failed = failed or any(verdict is Verdict.FAILED for _, verdict, _ in parts)
    if not parts:
        verdict = Verdict.FAILED if failed else Verdict.SKIPPED if skipped else Verdict.PASSED
        parts = [(name, verdict, next(iter(skipped.values()), ""))]
    return Outcome(test, Verdict.FAILED if failed else Verdict.PASSED, seconds, processor, output, "", parts=parts)


def is_free(port):
    """Returns true if no socket on this host uses the port over UDP or TCP."""
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        with socket.socket(socket.AF_INET, kind) as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True


def free_places(count):
    """Returns so many addresses whose ports are free. An agent uses its port over UDP and TCP. The kernel gives these ports to
    no connection, because they lie below its range of local ports."""
    first, last = 12_000, 20_000
    start = os.getpid() * 37 % (last - first)
    ports = (first + (start + i) % (last - first) for i in range(last - first))
    free = list(itertools.islice(filter(is_free, ports), count))
    return [f"127.0.0.1:{port}" for port in free]


@contextlib.contextmanager
def lossy_nics(environment):
    """Starts two NICs in software, over a way that loses, doubles, delays and damages frames. The way is UDP, or Unix datagrams where
    the kernel shows this user no sequence numbers. Yields the environment of programs whose connections go by the NICs."""
    sovia, agents = environment["SOVIA_BIN"], []
    places = dict(zip("ab", free_places(2)))
    with tempfile.TemporaryDirectory() as folder:
        keys = {
            name: subprocess.run([sovia, "agent", "--new-key", f"{folder}/{name}.key"], check=True,
                                 stdout=subprocess.PIPE, text=True).stdout.strip()
            for name in places
        }
        for name, peer in (("a", "b"), ("b", "a")):
            if os.getuid() == 0:
                way = ["--listen", places[name], "--key", f"{folder}/{name}.key", "--peer", f"{keys[peer]}@{places[peer]}",
                       "--peer-network", "127.0.0.0/8", "--peer-network", "::1/128"]
            else:
                way = ["--port", f"{folder}/{name}", "--peer", f"{folder}/{peer}"]
            faults = ["--seed", "7", "--lose", "20000", "--duplicate", "10000", "--delay", "20000", "--corrupt", "10000"]
            agents.append(subprocess.Popen([sovia, "agent", "--name", f"suite-{os.getpid()}-{name}", *way, *faults],
                                           stdout=subprocess.PIPE, text=True))
        try:
            for agent in agents:
                if not any("ready" in line for line in agent.stdout):
                    raise programs.BuildFailed("an agent ended before it was ready")
            rules = ";".join(f"nic:name=suite-{os.getpid()}-{name},end={end}" for name, end in (("a", "connector"), ("b", "acceptor")))
            yield dict(environment, SOVIA_RULES=rules, SOVIA_TESTS_UNTIL_MET="1")
        finally:
            for agent in agents:
                agent.kill()
                agent.wait()
