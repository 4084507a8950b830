"""Puts faults into a copy of the engine and counts how many of them a tier of tests finds.

Usage: mutants.py FOLDER [--seed N] [--count N] [--tier check|test] [--watchdog S]

Copies the tree to FOLDER, puts all faults into it at once, each behind a question for the environment's SOVIA_MUTANT, and builds it once.
Then the tier runs once for each fault, until its first failure. Faults stand at random places of the crates below. A condition is
inverted, a wake-up is left out, a number is off by one, or a comparison takes in its bound. A run that was ended goes on where it was,
if it is started again with the same arguments on the same commit.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CRATES = ["crates/sockets/src", "crates/shm/ring/src", "crates/shm/via-shm/src", "abi/preload/src"]
# Files that are no part of the product: tests, models, entry points of fuzzers.
LEFT_OUT = re.compile(r"tests?\.rs$|_tests|/tests/|fuzzing|per_engine|lane")
# Tests in the order in which they run, the quickest first. Tests that use none of these crates are left out.
STAGES = [
    r"^(sovia-(ring|sockets|calls|preload)|via-shm)/",
    r"^sovia-tests/",
    r"^(sovia-c|sovia)/",
]
ASK = '''
/// Returns true where the environment's SOVIA_MUTANT is `number`.
pub fn mutant(number: u32) -> bool {
    use core::sync::atomic::{AtomicU32, Ordering};
    static ACTIVE: AtomicU32 = AtomicU32::new(u32::MAX);
    let mut active = ACTIVE.load(Ordering::Relaxed);
    if active == u32::MAX {
        let named = std::env::var("SOVIA_MUTANT").ok().and_then(|text| text.parse().ok());
        active = named.unwrap_or(0);
        ACTIVE.store(active, Ordering::Relaxed);
    }
    active == number
}
'''
IF = re.compile(r"^(\s*(?:\} else )?if )((?!let\b)[^{}]*?)( \{)$")
LESS = re.compile(r"^(\s*(?:\} else )?if )([\w.()]+) < ([\w.()]+)( \{)$")
WAKE = re.compile(r"^(\s*)([\w.:()&]*\b(?:wake|notify|ring|nudge|publish|mark|interrupt)\w*\([^;]*\);)$")
ONE = re.compile(r"^(?!\s*//)(.*[\w)] [+-] )1\b(?!\.)(.*[;,)].*)$")


def places(folder):
    """Yields (file, line number, kind) of every place where a fault can be put."""
    for crate in CRATES:
        for path, _, names in sorted(os.walk(os.path.join(folder, crate))):
            for name in sorted(names):
                file = os.path.join(path, name)
                if not name.endswith(".rs") or LEFT_OUT.search(os.path.relpath(file, folder)):
                    continue
                with open(file, encoding="utf-8") as text:
                    lines = text.read().split("\n")
                end = next((n for n, line in enumerate(lines) if line.startswith("#[cfg(test)]")), len(lines))
                for number, line in enumerate(lines[:end]):
                    for kind, pattern in (("invert", IF), ("bound", LESS), ("wake", WAKE), ("one", ONE)):
                        if pattern.match(line) and " const " not in line:
                            yield file, number, kind


def fault(line, kind, number):
    """Returns a line with a fault in it that shows if `number` is asked for."""
    ask = f"sovia_sys::mutant({number})"
    if kind == "invert":
        return IF.sub(rf"\1({ask}) != (\2)\3", line)
    if kind == "bound":
        return LESS.sub(rf"\1(if {ask} {{ \2 <= \3 }} else {{ \2 < \3 }})\4", line)
    if kind == "wake":
        return WAKE.sub(rf"\1if !{ask} {{ \2 }}", line)
    return ONE.sub(rf"\g<1>(if {ask} {{ 0 }} else {{ 1 }})\2", line)


def mutate(folder, chosen):
    """Puts the chosen faults into the copy; returns what each replaces."""
    sys_lib = os.path.join(folder, "crates/base/sys/src/lib.rs")
    subprocess.run(["git", "checkout", "-q", "."], cwd=folder, check=True)
    with open(sys_lib, "a", encoding="utf-8") as text:
        text.write(ASK)
    for number, (file, line, kind) in chosen.items():
        with open(file, encoding="utf-8") as text:
            lines = text.read().split("\n")
        lines[line] = fault(lines[line], kind, number) + f" // mutant {number}"
        with open(file, "w", encoding="utf-8") as text:
            text.write("\n".join(lines))


def compiling(folder, candidates, count):
    """Returns `count` faults that compile together, by number."""
    chosen, next_number = {}, 1
    while True:
        taken = {(file, line) for file, line, _ in chosen.values()}
        while len(chosen) < count:
            place = candidates.pop()
            if place[:2] not in taken:
                chosen[next_number] = place
                taken.add(place[:2])
                next_number += 1
        mutate(folder, chosen)
        check = ["cargo", "check", "--quiet", "-p", "sovia-preload", "-p", "sovia-sockets", "-p", "sovia-ring", "-p", "via-shm", "--message-format=short"]
        done = subprocess.run(check, cwd=folder, check=False, stderr=subprocess.PIPE, text=True)
        if done.returncode == 0:
            return chosen
        bad = set()
        for file, line in re.findall(r"^(\S+\.rs):(\d+):\d+: error", done.stderr, re.M):
            for number, place in chosen.items():
                if place[0].endswith(file) and abs(place[1] + 1 - int(line)) <= 3:
                    bad.add(number)
        if not bad:
            sys.exit(f"mutants: the copy does not compile, and no fault is at the lines:\n{done.stderr}")
        for number in bad:
            del chosen[number]


def first_failure(folder, arguments, number):
    """Returns the test by which the tier finds a fault, or None."""
    for stage in STAGES:
        words = [arguments.tier, "--only", stage, "--watchdog", str(arguments.watchdog), "--stop"]
        done = subprocess.run([sys.executable, "tools/suite/suite.py", *words], cwd=folder, check=False, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, env=dict(os.environ, SOVIA_MUTANT=str(number)))
        if "suite: cannot" in done.stdout:
            sys.exit(f"mutants: cannot run the tier\n{done.stdout[-4000:]}")
        by = re.search(r"^FAILED: (\S+)", done.stdout, re.M)
        if done.returncode and by:
            return by.group(1)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--tier", default="check", choices=["check", "test"])
    parser.add_argument("--watchdog", type=float, default=40)
    arguments = parser.parse_args()
    folder = os.path.abspath(arguments.folder)
    marker = os.path.join(folder, ".git", "of-mutants")
    if not os.path.exists(folder):
        subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True)
        with open(marker, "w", encoding="utf-8"):
            pass
    if not os.path.exists(marker):
        sys.exit(f"mutants: cannot use {folder}: this program has not made it; name a folder that does not exist")
    for words in (["fetch", "--quiet", ROOT, "HEAD"], ["checkout", "--quiet", "--force", "FETCH_HEAD"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    os.environ["CARGO_TARGET_DIR"] = os.path.join(folder, "target")
    candidates = sorted(places(folder))
    random.Random(arguments.seed).shuffle(candidates)
    print(f"mutants: seed {arguments.seed}, {len(candidates)} places", flush=True)
    chosen = compiling(folder, candidates, arguments.count)
    if arguments.tier == "test":
        subprocess.run(["make", "build"], cwd=folder, check=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    notes = os.path.join(folder, ".git", f"mutants-{commit[:12]}-{arguments.tier}-{arguments.seed}-{arguments.count}.json")
    found = {}
    if os.path.exists(notes):
        with open(notes, encoding="utf-8") as text:
            found = {int(number): by for number, by in json.load(text).items()}
    for number in [0, *sorted(chosen)]:
        if number not in found:
            found[number] = first_failure(folder, arguments, number)
            with open(notes, "w", encoding="utf-8") as text:
                json.dump(found, text)
        if number == 0:
            if found[0]:
                sys.exit(f"mutants: {found[0]} fails without any fault")
            continue
        file, line, kind = chosen[number]
        where = f"{os.path.relpath(file, folder)}:{line + 1}"
        print(f"{number:3} {kind:7} {where:60} {found[number] or 'NOT FOUND'}", flush=True)
    hit = sum(1 for number in chosen if found[number])
    print(f"\nmutants: {arguments.tier}: {hit} of {len(chosen)} found, {100 * hit // len(chosen)} %")


if __name__ == "__main__":
    main()
