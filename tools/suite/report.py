"""Prints what becomes of tests, and the tables at the end."""

import collections
import os
import re
import sys

from runner import Verdict

SLOWEST = 20


class Report:
    """Collects outcomes and prints the ones that matter as they come."""

    def __init__(self, verbose):
        self.verbose = verbose
        self.outcomes, self.steps = [], []
        self.done = self.total = 0

    def line(self, text):
        print(text, flush=True)

    def begin(self, name, count):
        """Announces a part of so many tests."""
        self.done, self.total = 0, count
        self.line(f"\n== {name}: {count} tests")

    def step(self, name, seconds):
        """Notes how long a step took."""
        self.steps.append((name, seconds))
        self.line(f"   {seconds:.0f} s: {name}")

    def outcome(self, outcome):
        """Prints an outcome of a run beside others; a failure is judged by its second run."""
        self.done += 1
        if outcome.verdict is Verdict.FAILED:
            self.line(f"[{self.done}/{self.total}] failed, runs again alone at the end: {outcome.test} ({outcome.seconds:.1f} s)")
        elif outcome.verdict is Verdict.SKIPPED and self.verbose:
            self.line(f"[{self.done}/{self.total}] SKIPPED: {outcome.test}: {outcome.reason}")
        elif self.verbose or self.done % 200 == 0:
            self.line(f"[{self.done}/{self.total}] {outcome.verdict.value} {outcome.test} ({outcome.seconds:.1f} s)")

    def add(self, outcomes):
        """Counts outcomes that will not change any more."""
        for outcome in outcomes:
            self.outcomes.append(outcome)
            if outcome.verdict is Verdict.FAILED:
                self.line(f"\nFAILED: {outcome.test} ({outcome.reason or 'see its output'})\n{tail(outcome.output)}")
                if outcome.again:
                    self.line(f"-- and alone:\n{tail(outcome.again)}")
            elif outcome.verdict is Verdict.FLAKY:
                self.line(f"\nFLAKY: {outcome.test}: failed beside others and passed alone. Failed with:\n{tail(outcome.output)}")
                self.line(f"-- passed with:\n{tail(outcome.again, 2000)}")

    def has_failed(self):
        """Returns true if a test has failed twice."""
        return any(outcome.verdict is Verdict.FAILED for outcome in self.outcomes)

    def summary(self, listed):
        """Prints the tables and, last, the count. Returns the numbers of failures and of flaky tests that are not `listed`."""
        self._skipped()
        self._slowest()
        self._programs()
        self.line("\nSeconds of each step:")
        for name, seconds in self.steps:
            self.line(f"  {seconds:7.1f}  {name}")
        counts = collections.Counter()
        flaky = []
        for outcome in self.outcomes:
            for name, verdict, _ in named(outcome):
                counts[verdict] += 1
                if verdict is Verdict.FLAKY:
                    flaky.append(name)
            # A whole program may die without a failed test, or pass as a whole the second time.
            if outcome.parts and outcome.verdict is Verdict.FAILED and not any(v is Verdict.FAILED for _, v, _ in outcome.parts):
                counts[Verdict.FAILED] += 1
            if outcome.parts and outcome.verdict is Verdict.FLAKY and not any(v is Verdict.FLAKY for _, v, _ in outcome.parts):
                flaky.append(str(outcome.test))
        unlisted = [name for name in flaky if name not in listed]
        for name in flaky:
            self.line(f"FLAKY: {name}" + (" (not in tests/flaky.toml)" if name in unlisted else f" (known: {listed[name]})"))
        passed = counts[Verdict.PASSED] + counts[Verdict.FLAKY]
        self.line(f"\n{passed} passed, {counts[Verdict.FAILED]} failed, {counts[Verdict.SKIPPED]} skipped")
        return counts[Verdict.FAILED], unlisted

    def _skipped(self):
        reasons = collections.defaultdict(list)
        for outcome in self.outcomes:
            for name, verdict, reason in named(outcome):
                if verdict is Verdict.SKIPPED:
                    reasons[reason].append(name)
        if reasons:
            self.line("\nSkipped:")
        for reason, names in sorted(reasons.items(), key=lambda item: -len(item[1])):
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            self.line(f"  {reason}: {', '.join(sorted(names)[:3])}{more}")

    def _slowest(self):
        for what, key in (("slowest", lambda outcome: outcome.seconds), ("most expensive", lambda outcome: outcome.processor)):
            self.line(f"\nThe {SLOWEST} {what} tests (seconds, processor seconds):")
            for outcome in sorted(self.outcomes, key=key, reverse=True)[:SLOWEST]:
                self.line(f"  {outcome.seconds:7.1f} {outcome.processor:7.1f}  {outcome.test}")

    def table(self, path):
        """Writes a line for each outcome: processor seconds, seconds, verdict and test, the most expensive first."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            for outcome in sorted(self.outcomes, key=lambda outcome: -outcome.processor):
                file.write(f"{outcome.processor:.2f}\t{outcome.seconds:.2f}\t{outcome.verdict.value}\t{outcome.test}\n")

    def _programs(self):
        seconds, processor, tests = collections.Counter(), collections.Counter(), collections.Counter()
        for outcome in self.outcomes:
            key = str(outcome.test.program)
            seconds[key] += outcome.seconds
            processor[key] += outcome.processor
            tests[key] += len(outcome.parts) or 1
        self.line("\nTest programs (seconds of all their tests, processor seconds, tests):")
        for key, value in seconds.most_common():
            self.line(f"  {value:7.1f} {processor[key]:7.1f} {tests[key]:6}  {key}")


def named(outcome):
    """Returns (PACKAGE/PROGRAM/TEST, verdict, reason) of a test, or of each test of a whole program."""
    if outcome.parts:
        return [(f"{outcome.test.program}/{name}", verdict, reason) for name, verdict, reason in outcome.parts]
    return [(str(outcome.test), outcome.verdict, outcome.reason)]


def tail(text, limit=12000):
    """Returns the end of a long output. Lines before it that tell of a failure are kept."""
    if len(text) <= limit:
        return text
    before = text[:-limit]
    kept = [line for line in before.splitlines() if re.search(r"\bFAILED\b|panicked at|^\| status ", line)][:50]
    return "\n".join([f"[{len(before)} characters before]", *kept, text[-limit:]])


def complain(text):
    """Prints an error of the suite itself."""
    print(f"suite: {text}", file=sys.stderr, flush=True)
