"""Runs the tests of a tier: `check`, `test`, `all`, or a part of `all`.

The last line is `N passed, N failed, N skipped`; the exit status is 1 if any failed, and, for `all`, if one is flaky that
tests/flaky.toml does not list. A test runs in a process of its own, under a watchdog that scales with the machine. One that fails runs
once more, alone: if it passes then, it is printed as FLAKY with both outputs. A test that cannot run here prints
`SKIPPED: name: reason`.
"""

import argparse
import contextlib
import functools
import os
import re
import signal
import subprocess
import sys
import time

import flaky
import machine
import parts
import plan
from programs import BuildFailed
from report import Report, complain
from runner import Runner

# Number of tests beside each other, and the most of them while processors are idle.
JOBS = 2 * machine.processors()
MOST = 6 * machine.processors()
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main():
    arguments = parse()
    target = os.path.realpath(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")))
    factor = machine.scale() if arguments.scale is None else arguments.scale
    jobs, most = (arguments.jobs, arguments.jobs) if arguments.jobs else (JOBS, MOST)
    beside = f", up to {most} while processors are idle" if most > jobs else ""
    print(f"suite: {arguments.tier}: {jobs} tests at a time{beside}; watchdogs x {factor:.1f}", flush=True)
    environment = dict(os.environ, CARGO_TERM_COLOR="never", SOVIA_TESTS_SCALE=f"{factor:.2f}")
    report = Report(arguments.verbose)
    watchdog = (lambda test: arguments.watchdog) if arguments.watchdog else plan.watchdog
    runner = Runner(jobs, most, watchdog, factor, environment, report.outcome)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    be_interrupted_as_usual()
    durations = machine.Durations(os.path.join(target, "suite", "seconds.json"))
    suite = parts.Suite(ROOT, target, runner, report, durations, lambda test: re.search(arguments.only, str(test)))
    suite.stops, suite.filters = arguments.stop, bool(arguments.only)
    begin = time.monotonic()
    try:
        for part in TIERS[arguments.tier]:
            part(suite)
            if arguments.stop and report.has_failed():
                break
    except BuildFailed as e:
        complain(str(e))
        report.add([parts.of_script("build", 1, str(e), 0.0)])
    finally:
        runner.stop()
    report.step("all of it", time.monotonic() - begin)
    report.table(os.path.join(target, "suite", "tests.tsv"))
    failed, unlisted = report.summary(flaky.read(os.path.join(ROOT, "tests", "flaky.toml")))
    return 1 if failed or (unlisted and arguments.tier not in FORGIVING) else 0


def parse():
    parser = argparse.ArgumentParser(prog="scripts/test", description="Runs the tests of a tier, or of a part of `all`.")
    parser.add_argument("tier", nargs="?", default="test", choices=sorted(TIERS), metavar="TIER", help="one of " + ", ".join(TIERS))
    parser.add_argument("--only", default="", metavar="REGEX", help="tests whose PACKAGE/PROGRAM/NAME it matches")
    parser.add_argument("--jobs", type=int, help=f"tests beside each other, and no more [{JOBS}, up to {MOST} while processors are idle]")
    parser.add_argument("--scale", type=float, help="the factor for watchdogs; measured if not given")
    parser.add_argument("--watchdog", type=float, metavar="SECONDS", help="for every test, in place of its own")
    parser.add_argument("--stop", action="store_true", help="at the first test that fails, and fails alone")
    parser.add_argument("--verbose", action="store_true", help="a line for each test")
    return parser.parse_args()


def be_interrupted_as_usual():
    """Takes back what the caller of this program has ignored or blocked, as nohup, perf and a shell in the background do. Programs inherit
    that, but no handler. Tests send them such signals."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    # Of Python's own, which its child processes have as usual.
    own = {signal.SIGPIPE, signal.SIGXFSZ}
    for number in signal.valid_signals() - own:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


# Parts of tiers.


def own(suite):
    """The suite's own tests."""
    tests = [sys.executable, "-m", "unittest", "discover", "-s", "tools/suite"]
    suite.script("the suite's own tests", tests, suite.runner.environment)


def quick(suite):
    """Unit tests, the models, and the VI core's cases on the simulated NIC without faults and on shared memory."""
    cases = {"via-sim/conformance": {"perfect_network"}, "via-shm/conformance": {"threads"}}

    def keep(test):
        of = plan.configuration(test)
        if of:
            return of[1] in cases.get(of[0], ())
        return plan.is_quick(test)

    suite.cargo("unit tests, the model, the VI core's cases", parts.WORKSPACE, keep, suite.environment("debug"))


def scenarios(suite):
    """Scenario programs and Redis over a build whose assertions hold."""
    checked_products(suite)
    suite.cargo("scenarios and Redis over a build with assertions", parts.WORKSPACE, plan.is_checked_quickly, suite.environment("checked"))


def checked_products(suite):
    """Builds the products with assertions."""
    products(suite, "the products with assertions", "scripts/checked")


def products(suite, name, script):
    """Builds products by a script."""
    begin = time.monotonic()
    if subprocess.run([script], cwd=suite.root, check=False).returncode != 0:
        raise BuildFailed(f"cannot build {name}: {script}")
    suite.report.step(f"building {name}", time.monotonic() - begin)


def usual(suite, every=False):
    """Every test that the change can break, in its usual configuration. Of ways that take turns in a test a commit has some, or `every`
    one."""
    left = set()

    def keep(test):
        package, change = test.program.package, suite.change
        if suite.filters:
            # The user has named tests: that the change does not touch their package is no reason to leave them out.
            change = plan.Change(frozenset({package}), frozenset({package}))
        elif package not in change.reached:
            left.add(package)
        return plan.is_usual(test, change)

    environment = suite.environment("release", {} if every or suite.filters else {"SOVIA_TESTS_TURN": suite.commit})
    suite.build(parts.WORKSPACE, environment)
    documented = ["cargo", "test", "--doc", "--workspace", "--", "--show-output"]
    with suite.beside("examples in the documentation", documented, environment):
        suite.cargo("tests", parts.WORKSPACE, keep, environment)
    if left:
        suite.report.line(f"packages that the change does not reach were left out: {', '.join(sorted(left))}")


def models(suite, packages=plan.LOOM):
    """Every order of events in the lock-free parts, under loom. A cfg of its own, so a folder of its own."""
    if not packages:
        return
    environment = suite.environment("release", {"RUSTFLAGS": "--cfg loom", "CARGO_TARGET_DIR": os.path.join(suite.target, "loom")})
    selection = ("--profile=loom", *(word for package in packages for word in ("-p", package)), "--test", "loom")
    suite.cargo(f"models of {' and '.join(packages)}", selection, lambda test: True, environment)


def models_of_change(suite):
    """Those of the packages that the change reaches."""
    models(suite, [package for package in plan.LOOM if package in suite.change.reached])


def unusual(suite):
    """Tests that `usual` leaves out: the VI core's cases in other configurations, and packages that the change does not reach."""
    suite.cargo("what `make test` leaves out", parts.WORKSPACE, lambda test: not plan.is_usual(test, suite.change), suite.environment("release"))


def long(suite):
    """The tests that are ignored because they take long."""
    environment = suite.environment("release")

    def keep(test):
        # Without --ignored a program gives the reason, and runs nothing.
        return plan.LONG.search(suite.runner.once(test).reason)

    with patience(suite):
        suite.cargo("long tests", parts.WORKSPACE, keep, environment, ignored=True)


@contextlib.contextmanager
def patience(suite):
    """Has the block's tests run for as long as a long test may."""
    suite.runner.watchdog, shorter = (lambda test: plan.SOAK), suite.runner.watchdog
    try:
        yield
    finally:
        suite.runner.watchdog = shorter


def protocols(suite):
    """Scenarios and real programs in configurations that a program has only if it asks for them."""
    for protocol in plan.PROTOCOLS:
        protocol_part(suite, protocol, plan.is_scenario)


def protocol_part(suite, protocol, keep):
    environment = suite.environment("release", {"SOVIA_PROTOCOL": protocol})
    suite.cargo(f"scenarios with {protocol}", parts.WORKSPACE, keep, environment)


def checked(suite):
    """All scenarios over a build whose assertions hold: which lock is taken under which, for example."""
    checked_products(suite)
    suite.cargo("scenarios over a build with assertions", parts.WORKSPACE, plan.is_checked, suite.environment("checked"))


def nics(suite):
    """Scenarios whose connections two NICs in software carry, over a way that loses frames."""
    with parts.lossy_nics(suite.environment("release")) as environment:
        suite.cargo("scenarios between two NICs", parts.WORKSPACE, plan.is_between_nics, environment)


def strangers(suite):
    """Scenarios between two processes that may not trace each other, and share memory by a rule. For root."""
    if os.geteuid() != 0:
        suite.report.add([parts.of_script("scenarios between strangers", 0, "SKIPPED: strangers: not root\n", 0.0)])
        return
    environment = suite.environment("release", {"SOVIA_TESTS_STRANGERS": "1"})
    suite.cargo("scenarios between strangers", parts.WORKSPACE, plan.is_between_strangers, environment)


def stall(suite):
    """Scenarios over a build whose threads stand still at hand-overs. SOVIA_STALL chooses another seed, number and length of stalls."""
    products(suite, "products whose threads stand still", "scripts/stall")
    schedule = os.environ.get("SOVIA_STALL", "1,6,1500")
    log = os.path.join(suite.target, "stall", f"{schedule}.log")
    with open(log, "w", encoding="utf-8"):
        pass
    # Every call of a process may take as long as all its stalls together, and some scenarios have twenty processes.
    more = {"SOVIA_STALL": schedule, "SOVIA_STALL_LOG": log, "SOVIA_TESTS_WATCHDOG": "600"}
    with patience(suite):
        suite.cargo(f"scenarios with stalls ({schedule})", parts.WORKSPACE, plan.is_stalled, suite.environment("stall/checked", more))
    # A run without a stall proves nothing.
    with open(log, encoding="utf-8") as stalls:
        count = sum(1 for _ in stalls)
    suite.report.add([parts.of_script("stalls", 0 if count else 1, f"{count} stalls, in {log}\n")])


def lab(suite):
    """Tests that need a NIC with RDMA, in a guest that has one in software."""
    suite.script("lab", ["scripts/lab/tests"], suite.environment("release"))


def lab_short(suite):
    suite.script("lab, its short part", ["scripts/lab/tests", "short"], suite.environment("release"))


def arm(suite):
    """Unit tests and scenarios on aarch64, in a guest on an emulated processor."""
    suite.script("aarch64", ["scripts/arm"], suite.environment("release"))


def installed(suite):
    """Packages and recipes for containers, by the commands of the pages for users. For root, with debootstrap."""
    for name in ("try-packages", "try-containers"):
        suite.script(name, ["make", "--no-print-directory", name], suite.environment("release"))


def fuzz(suite, targets=()):
    """A part of what a hostile peer can write: the same inputs every time. Without targets, all of them."""
    suite.script("fuzz", ["scripts/fuzz", "-n", "20000", *targets], suite.environment("release"))


def fuzz_turn(suite):
    """Runs the targets whose turn it is: all of them take ten minutes to build and to run."""
    targets = [name.removesuffix(".rs") for name in os.listdir(os.path.join(suite.root, "fuzz", "targets"))]
    fuzz(suite, plan.share(suite.commit, targets))


def turn(suite):
    """A part of `all`, another one for another commit; and whole conformance of each provider that the change touches."""
    commit, change = suite.commit, suite.change
    suite.report.line(f"turn: commit {commit[:12]}; packages that the change touches: {', '.join(sorted(change.packages)) or 'none'}")
    suite.cargo("tests whose turn it is", parts.WORKSPACE, lambda test: plan.is_due(test, commit, change), suite.environment("release"))
    models(suite, [package for package in plan.LOOM if package not in change.reached and plan.is_turn(commit, package)])
    plan.turn(commit, ROTATED)(suite)


ROTATED = [checked, nics, strangers, lab_short, fuzz_turn] + [
    lambda suite, protocol=protocol: protocol_part(suite, protocol, plan.is_with_protocol) for protocol in plan.PROTOCOLS
]
# Tiers that a test may pass which is flaky, and not listed.
FORGIVING = ("check", "test", "turn")
TIERS = {
    "check": [own, quick, scenarios],
    "test": [own, usual, models_of_change],
    "all": [own, functools.partial(usual, every=True), unusual, models, long, protocols, checked, nics, strangers, stall, lab, arm, fuzz, installed],
    "turn": [turn],
    "arm": [arm],
    "checked": [checked],
    "installed": [installed],
    "lab": [lab],
    "lab-short": [lab_short],
    "nics": [nics],
    "protocols": [protocols],
    "soak": [long],
    "stall": [stall],
    "strangers": [strangers],
}

if __name__ == "__main__":
    sys.exit(main())
