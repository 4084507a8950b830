"""Says which tests belong to which tier, and what they are given."""

import hashlib
import json
import re
import subprocess
from dataclasses import dataclass

# Programs whose tests share what they build: they run as cargo runs them, in one process.
WHOLE = re.compile(r"^(sovia-c|sovia-vipl|sovia-emp-c|sovia-fi-c)/all/")

# A case of the VI core, as PACKAGE/PROGRAM/CONFIGURATION::GROUP::CASE.
CONFORMANCE = re.compile(r"/(?:conformance\w*)/(.+)::[^:]+::[^:]+$")
# Its configurations that `make test` runs: for each provider the usual one. The others take turns.
USUAL = {
    "via-sim/conformance": {"perfect_network", "bad_network", "within_a_nic"},
    "via-shm/conformance": {"processes", "threads"},
    "via-eth/conformance": {"perfect_network"},
    "via-eth/conformance_devices": {"eth"},
    "sovia-agent/conformance": {"udp::two_agents"},
}
# Tests of a package that take many seconds of processor and go deeper than its others. `make test` runs them where the change touches
# that package. Otherwise they take turns. Each of libfabric's NICs takes a third of a processor's second to open.
DEEP = re.compile(r"^sovia-proto/all/paths::|^sovia-stream/all/(shm|sim)::|^via-ofi/all/(faults|resets|stopped)::|^via-ofi/conformance/tcp::"
                  r"[^:]+::[^:]+$|^sovia-cli/all/(papers::(the_report|every_way)_|bench::(any_nic|emp|every_layer)_)")
# Packages whose tests start what `make build` builds, and the packages from which it builds that.
DRIVERS = frozenset({"sovia", "sovia-c", "sovia-cli", "sovia-emp-c", "sovia-fi-c", "sovia-tests", "sovia-vipl"})
PRODUCTS = frozenset({"sovia-c", "sovia-cli", "sovia-emp-c", "sovia-fi-c", "sovia-preload", "sovia-vipl"})
# Packages whose tests read files of other packages.
READERS = frozenset({"emp-eth", "sovia-layers", "sovia-scale"})
# Packages whose lock-free parts have models under loom.
LOOM = ("sovia-ring", "via-shm", "sovia-sync")
# One in so many of the tests that `make test` leaves out has its turn with a commit.
TURN = 16
# One in so many of the names of a part that is shared out, where the part has its turn.
SHARE = 3

# Seconds until a single test counts as hanging, on the machine that `machine.REFERENCE` is of.
WATCHDOG = 240
LONGER = {r"^sovia-proto/": 900, r"/papers::": 600}
# Seconds that a test is expected to take where it has not run before: long ones start first.
EXPECTED = {r"^sovia-proto/": 30, r"/papers::": 60, r"^sovia-stream/|/(far|failover|programs|walks|faults)::": 10}
# Of a test that is ignored because it takes long, and of a script.
SOAK = 7200
SCRIPT = 7200

# Protocols of the papers that no program has unless it asks for them.
PROTOCOLS = ["SOVIA_NOTIFY", "SOVIA_HANDLER", "SOVIA_COPY", "reg,w=32,t=16", "handler", "notify,copy,w=4,t=2"]

# Reasons of tests that are ignored because they take long: minutes, not hours. Others are ignored for a known defect, or are no tests
# by themselves.
LONG = re.compile(r"soak|minute|takes long")


def _topics(*names):
    return re.compile(rf"^sovia-tests/all/({'|'.join(names)})::")


SCENARIO = re.compile(r"^sovia-tests/all/")
CHECKED = _topics("agent", "closing", "descriptors", "dying", "epoll_shared", "limits", "processes", "reasons", "signals", "streams",
                  "switching", "users", "waiting")
NICS = _topics("closing", "ends", "streams")
STRANGERS = _topics("closing", "descriptors", "dying", "ends", "epoll_shared", "inheriting", "processes", "scribbles", "signals",
                    "streams", "switching", "taken_back", "waiting")
STALLED = _topics("closing", "descriptors", "limits", "processes", "streams", "switching", "waiting")
# Hundreds of processes one after the other, each of which would stall as often.
CROWDS = re.compile(
    r"::(a_namespace_or_a_table_of_its_own_at_any_moment|children_read_what_peers_left|fork_in_a_handler_of_malloc"
    r"|three_hundred_clients_one_after_the_other)$"
)
# A fallback waits two seconds for the peer before it starts a relay. A peer that stalls more than once needs longer.
RELAYLESS = re.compile(r"::much_unread_needs_no_relay$")
QUICKLY = _topics("closing", "ends", "epoll_shared", "odd_flags", "pointers", "streams", "waiting")
# Scenarios that take a protocol's turn. `make test-all` runs the others with each protocol as well.
PROTOCOL = _topics("closing", "ends", "epoll_shared", "processes", "streams", "waiting")
REDIS = re.compile(r"^sovia-tests/all/programs::redis")
MODEL = re.compile(r"^sovia-proto/all/")
LAYERS = re.compile(r"/all/layers::|/layers/|^sovia-layers/")


def watchdog(test):
    """Returns the seconds that a test may take on the reference machine."""
    if test.whole:
        return 3600
    return next((seconds for pattern, seconds in LONGER.items() if re.search(pattern, str(test))), WATCHDOG)


def expected(test):
    """Returns the seconds that a test is expected to take."""
    if test.whole:
        return 60
    return next((seconds for pattern, seconds in EXPECTED.items() if re.search(pattern, str(test))), 0.5)


def configuration(test):
    """Returns (program, configuration) of a case of the VI core; None for any other test."""
    found = CONFORMANCE.search(str(test))
    return (str(test.program), found.group(1)) if found else None


@dataclass(frozen=True)
class Change:
    """Packages that a change touches. The files of `packages` differ. `reached` are also those built from them, those whose tests start
    a program built from them, and those whose tests read other packages' files."""

    packages: frozenset
    reached: frozenset


def is_usual(test, change):
    """Returns true if `make test` runs the test. In a package that the change does not reach it runs unchanged code."""
    if test.program.package not in change.reached:
        return False
    if DEEP.search(str(test)):
        return test.program.package in change.packages
    of = configuration(test)
    return of is None or of[1] in USUAL.get(of[0], ())


def is_quick(test):
    """Returns true for unit tests, the models of the protocol and the orders of modules."""
    name = str(test)
    # A whole program is more than its orders of modules.
    is_one = MODEL.search(name) or (LAYERS.search(name) and not WHOLE.search(name))
    return test.program.name == "lib" or bool(is_one)


def is_checked_quickly(test):
    """Returns true for what `make check` runs over a build with assertions."""
    return bool(QUICKLY.search(str(test)) or REDIS.search(str(test)))


def is_scenario(test):
    return bool(SCENARIO.search(str(test)))


def is_with_protocol(test):
    return bool(PROTOCOL.search(str(test)))


def is_checked(test):
    return bool(CHECKED.search(str(test)))


def is_stalled(test):
    name = str(test)
    return bool(STALLED.search(name) and not CROWDS.search(name) and not RELAYLESS.search(name))


def is_between_nics(test):
    return bool(NICS.search(str(test)))


def is_between_strangers(test):
    return bool(STRANGERS.search(str(test)))


def is_due(test, commit, change):
    """Returns true for a test that `make test` leaves out and whose turn it is, and for all cases of a provider that has changed."""
    if is_usual(test, change):
        return False
    return test.program.package in change.packages or is_turn(commit, test)


def is_turn(commit, what):
    """Returns true if what `make test` leaves out has its turn with a commit."""
    return _number(commit, what) % TURN == 0


def turn(commit, parts):
    """Returns the part that has its turn with a commit."""
    return parts[_number(commit, "parts") % len(parts)]


def share(commit, names):
    """Returns those names that have their turn with a commit."""
    return sorted(names)[_number(commit, "share") % SHARE :: SHARE]


def _number(commit, what):
    return int.from_bytes(hashlib.sha256(f"{commit}/{what}".encode()).digest()[:8], "big")


def change(root):
    """Returns the change since the commit at which it began. That is where it left origin/main, or, on origin/main itself, the commit
    of a day before. Without that commit, or without a difference, everything is reached."""
    def git(*words):
        done = subprocess.run(["git", *words], cwd=root, check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return done.stdout.strip() if done.returncode == 0 else None

    head = git("rev-parse", "HEAD")
    base = git("merge-base", head or "HEAD", "origin/main")
    if head and base in (None, head):
        base = git("rev-list", "-1", f"--before={int(git('show', '-s', '--format=%ct', head)) - 86400}", head)
    # A file that has moved is one of both packages.
    differ = git("diff", "--name-only", "--no-renames", base) if base else None
    new = git("ls-files", "--others", "--exclude-standard")
    folders, dependencies = workspace(root)
    if not differ or new is None:
        return Change(frozenset(), frozenset(dependencies))
    return changed(differ.splitlines() + new.splitlines(), folders, dependencies)


def workspace(root):
    """Returns the name of the package in each folder, and the names of what each package is built from."""
    command = ["cargo", "metadata", "--no-deps", "--format-version=1"]
    done = subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE)
    packages = json.loads(done.stdout)["packages"]
    folders = {package["manifest_path"][len(root) + 1 : -len("Cargo.toml")]: package["name"] for package in packages}
    return folders, {package["name"]: {one["name"] for one in package["dependencies"]} for package in packages}


def changed(files, folders, dependencies):
    """Returns the change of those files. One of no package may be of the build, the set-up or the suite, and reaches everything.
    Documents reach only the tests that start what they tell of."""
    homes = {file: [name for folder, name in folders.items() if folder and file.startswith(folder)] for file in files}
    touched = frozenset(name for home in homes.values() for name in home)
    if any(not home and not file.endswith(".md") for file, home in homes.items()):
        return Change(touched, frozenset(dependencies))
    begin = touched | (DRIVERS if any(not home for home in homes.values()) else frozenset())
    more = {name: of | PRODUCTS if name in DRIVERS else of for name, of in dependencies.items()}
    # Readers alone: packages that are built of one read no such files.
    return Change(touched, reached(begin, more) | READERS)


def reached(packages, dependencies):
    """Returns packages and all that are built of them."""
    found = set(packages)
    while more := {name for name, of in dependencies.items() if name not in found and of & found}:
        found |= more
    return frozenset(found)
