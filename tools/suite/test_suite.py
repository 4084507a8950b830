"""The suite's own tests, on programs that are shell scripts."""

import os
import subprocess
import tempfile
import threading
import time
import types
import unittest
import unittest.mock

import flaky
import machine
import parts
import plan
import suite
from programs import BuildFailed, Program, Test
from report import Report, tail
from runner import Runner, Verdict, of_lines

PASSED = "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out\n"
FAILED = "test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured\n"
NONE = "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out\n"
IGNORED = "test a ... ignored, takes long\ntest result: ok. 0 passed; 0 failed; 1 ignored; 0 measured\n"


class Quiet(Report):
    """A report that keeps its lines."""

    def __init__(self):
        super().__init__(verbose=False)
        self.lines = []

    def line(self, text):
        self.lines.append(text)


class Scripts(unittest.TestCase):
    """Cases that run shell scripts as test programs."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def program(self, text):
        path = os.path.join(self.folder.name, "program")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(path, 0o755)
        return Program("package", "all", path, self.folder.name)

    def suite(self, seconds=60):
        report = Quiet()
        runner = Runner(2, 4, lambda test: seconds, 1.0, dict(os.environ), report.outcome)
        durations = type("None", (), {"of": lambda *_: 0, "add": lambda *_: None})()
        return parts.Suite(self.folder.name, self.folder.name, runner, report, durations, lambda test: True)

    def outcome(self, text, whole=False, seconds=60):
        suite = self.suite(seconds)
        suite.run("part", [Test(self.program(text), "*" if whole else "a", whole)], dict(os.environ))
        return suite.report.outcomes[0], suite.report

    def test_table_needs_no_folder(self):
        # A build that fails in a fresh clone has no test run before.
        path = os.path.join(self.folder.name, "suite", "tests.tsv")
        outcome, report = self.outcome(f"echo '{PASSED}'")
        report.table(path)
        with open(path, encoding="utf-8") as file:
            self.assertTrue(file.read().endswith(f"\tok\t{outcome.test}\n"))

    def test_result_and_status_decide(self):
        for text, verdict in [
            (f"echo '{PASSED}'", Verdict.PASSED),
            (f"echo '{FAILED}'; exit 101", Verdict.FAILED),
            (f"echo '{PASSED}'; exit 1", Verdict.FAILED),
            ("exit 0", Verdict.FAILED),
            (f"echo '{NONE}'", Verdict.FAILED),
            (f"echo 'SKIPPED: a: no NIC'; echo '{PASSED}'", Verdict.SKIPPED),
            (f"echo '{IGNORED}'", Verdict.SKIPPED),
        ]:
            self.assertIs(self.outcome(text)[0].verdict, verdict, text)

    def test_failure_that_passes_alone_is_flaky_with_both_outputs(self):
        outcome, report = self.outcome(f"if mkdir once; then echo first; exit 1; fi; echo second; echo '{PASSED}'")
        self.assertIs(outcome.verdict, Verdict.FLAKY)
        self.assertIn("first", outcome.output)
        self.assertIn("second", outcome.again)
        self.assertEqual(report.summary({}), (0, ["package/all/a"]))
        self.assertEqual(report.summary({"package/all/a": "a race"}), (0, []))
        self.assertEqual(report.lines[-1], "\n1 passed, 0 failed, 0 skipped")

    def test_more_tests_run_beside_each_other_while_processors_are_idle(self):
        # Each test ends once four have begun, or after its watchdog.
        program = f"mkdir $2; while [ $(ls -d t? | wc -l) -lt 4 ]; do sleep 0.01; done; echo '{PASSED}'"
        for idle, verdict, seconds in ((1.0, Verdict.PASSED, 60), (0.0, Verdict.FAILED, 0.5)):
            with unittest.mock.patch.object(machine, "idle", lambda _, share=idle: time.sleep(0.01) or share), tempfile.TemporaryDirectory() as folder:
                one = self.program(program)
                one.folder = folder
                suite = self.suite(seconds)
                outcomes = suite.runner.run([Test(one, f"t{n}") for n in range(4)])
                self.assertEqual({outcome.verdict for outcome in outcomes[:2]}, {verdict})
                self.assertEqual(len(outcomes), 4)

    def test_interrupted_run_leaves_no_worker_that_waits_for_its_turn(self):
        suite = self.suite()
        one = self.program("sleep 987")
        before = set(threading.enumerate())
        with unittest.mock.patch.object(machine, "idle", side_effect=KeyboardInterrupt), self.assertRaises(KeyboardInterrupt):
            suite.runner.run([Test(one, f"t{n}") for n in range(8)])
        suite.runner.stop()
        for worker in set(threading.enumerate()) - before:
            worker.join(60)
            self.assertFalse(worker.is_alive())

    def test_idle_share_is_between_none_and_all(self):
        self.assertTrue(0 <= machine.idle(0.05) <= 1)

    def test_watchdog_kills_the_whole_session(self):
        begin = time.monotonic()
        outcome, _ = self.outcome("setsid -w true; sleep 987 & echo $! > pid; wait", seconds=0.3)
        self.assertIs(outcome.verdict, Verdict.FAILED)
        self.assertIn("ended by the watchdog", outcome.output)
        self.assertLess(time.monotonic() - begin, 60)
        with open(os.path.join(self.folder.name, "pid"), encoding="utf-8") as file:
            pid = int(file.read())
        state = ""
        for _ in range(1000):
            try:
                with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                    state = file.read().rsplit(") ", 1)[1][0]
            except OSError:
                state = "gone"
            if state in ("Z", "gone"):
                break
            time.sleep(0.01)
        self.assertIn(state, ("Z", "gone"))

    def test_whole_program_counts_each_of_its_tests(self):
        lines = "test a ... ok\ntest b ... ok\ntest c ... ignored, later\nSKIPPED: b: no NIC\n"
        result = "test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured"
        outcome, report = self.outcome(f"echo '{lines}{result}'", whole=True)
        self.assertIs(outcome.verdict, Verdict.PASSED)
        report.summary({})
        self.assertEqual(report.lines[-1], "\n1 passed, 0 failed, 2 skipped")

    def test_part_of_a_whole_program_that_passes_alone_is_flaky(self):
        outcome, report = self.outcome(
            f"if [ $1 = --exact ]; then echo '{PASSED}'; exit; fi\n"
            "echo 'test a ... FAILED'; echo 'test b ... ok'; echo 'test result: FAILED. 1 passed; 1 failed; 0 ignored;'; exit 101", whole=True)
        self.assertIs(outcome.verdict, Verdict.FLAKY)
        self.assertEqual(report.summary({}), (0, ["package/all/a"]))
        self.assertEqual(report.lines[-1], "\n2 passed, 0 failed, 0 skipped")

    def test_whole_program_that_dies_fails(self):
        outcome, report = self.outcome("echo 'test a ... ok'; kill -9 $$", whole=True)
        self.assertIs(outcome.verdict, Verdict.FAILED)
        report.summary({})
        self.assertEqual(report.lines[-1], "\n1 passed, 1 failed, 0 skipped")

    def test_program_that_dies_after_a_failed_test_fails_again_as_a_whole(self):
        outcome, report = self.outcome("echo 'test a ... FAILED'; kill -9 $$", whole=True)
        self.assertIs(outcome.verdict, Verdict.FAILED)
        self.assertEqual(report.summary({})[0], 1)

    def test_program_that_cannot_start_fails(self):
        suite = self.suite()
        program = Program("package", "all", os.path.join(self.folder.name, "none"), self.folder.name)
        with self.assertRaises(FileNotFoundError):
            suite.runner.once(Test(program, "a"))
        self.assertEqual([o.verdict for o in suite.runner.run([Test(program, "a"), Test(program, "b")])], [Verdict.FAILED] * 2)

    def test_part_to_which_no_test_belongs_fails(self):
        with self.assertRaisesRegex(BuildFailed, "no test belongs"):
            self.suite().run("part", [], {})

    def test_script_whose_program_dies_without_a_result_fails(self):
        suite = self.suite()
        suite.script("a script", ["sh", "-c", "echo '     Running one'; echo 'test a ... ok'"], dict(os.environ))
        self.assertEqual(suite.report.summary({})[0], 1)

    def test_script_that_hangs_is_ended(self):
        suite = self.suite()
        plan.SCRIPT, limit = 0.2, plan.SCRIPT
        suite.script("a script", ["sleep", "987"], dict(os.environ))
        plan.SCRIPT = limit
        self.assertEqual(suite.report.summary({})[0], 1)

    def test_skipped_test_is_found_by_the_end_of_its_name(self):
        lines = "test x::rdma ... ok\ntest over_rdma ... ok\ntest c ... ignored, later\nSKIPPED: rdma: no NIC\n"
        self.assertEqual(of_lines(lines, {"rdma": "no NIC"}), [
            ("x::rdma", Verdict.SKIPPED, "no NIC"), ("over_rdma", Verdict.PASSED, ""), ("c", Verdict.SKIPPED, "later"),
        ])

    def test_script_without_results_is_one_test(self):
        suite = self.suite()
        suite.script("a script", ["sh", "-c", "exit 3"], dict(os.environ))
        suite.script("another", ["sh", "-c", "echo SKIPPED: lab: no QEMU"], dict(os.environ))
        self.assertEqual(suite.report.summary({})[0], 1)
        self.assertEqual(suite.report.lines[-1], "\n0 passed, 1 failed, 1 skipped")


class Output(unittest.TestCase):
    """Output that is shown of a failed test."""

    def test_cut_output_keeps_the_lines_that_name_failures(self):
        text = "test a ... FAILED\nthread 'a' panicked at x.rs:1\n" + "test b ... ok\n" * 2000
        shown = tail(text, limit=100)
        self.assertIn("test a ... FAILED\nthread 'a' panicked at x.rs:1\n", shown)
        self.assertLess(len(shown), 300)
        self.assertEqual(tail("test a ... ok\n"), "test a ... ok\n")


class Plan(unittest.TestCase):
    """Tiers and the tests in them."""

    def case(self, program, name):
        return Test(Program(*program.split("/"), "", ""), name)

    def change(self, *packages):
        return plan.Change(frozenset(packages), frozenset(packages))

    def test_configurations_of_the_core_are_told_apart(self):
        case = self.case("sovia-agent/conformance", "udp::two_agents::work_queues::a_case")
        self.assertEqual(plan.configuration(case), ("sovia-agent/conformance", "udp::two_agents"))
        change = self.change("sovia-agent", "via-eth", "via-ofi")
        self.assertTrue(plan.is_usual(case, change))
        self.assertFalse(plan.is_usual(self.case("via-eth/conformance", "bad_network::group::case"), change))
        self.assertFalse(plan.is_usual(self.case("via-ofi/conformance", "shm::peer-to-peer_(both)::case"), change))
        self.assertTrue(plan.is_usual(self.case("via-eth/all", "paths::a_case"), change))

    def test_cases_over_libfabric_are_usual_where_it_changed(self):
        case = self.case("via-ofi/conformance", "tcp::group::case")
        for change in (self.change(), self.change("via-eth"), self.change("via-ofi")):
            self.assertEqual(plan.is_usual(case, change), "via-ofi" in change.packages)
            self.assertFalse(all(plan.is_due(case, str(n), change) for n in range(200)))

    def test_tests_are_usual_where_the_change_reaches_their_package(self):
        case = self.case("sovia-proto/all", "rendezvous::a_case")
        for change in (self.change("sovia-proto"), plan.Change(frozenset({"sovia-layers"}), frozenset({"sovia-layers", "sovia-proto"}))):
            self.assertTrue(plan.is_usual(case, change))
        self.assertFalse(plan.is_usual(case, self.change("via-eth")))
        due = [plan.is_due(case, str(n), self.change("via-eth")) for n in range(200)]
        self.assertTrue(any(due) and not all(due))

    def test_deep_tests_are_usual_where_the_change_touches_their_package(self):
        case = self.case("sovia-proto/all", "paths::a_case")
        self.assertTrue(plan.is_usual(case, self.change("sovia-proto")))
        self.assertFalse(plan.is_usual(case, plan.Change(frozenset({"sovia-layers"}), frozenset({"sovia-layers", "sovia-proto"}))))

    def test_change_reaches_tests_that_start_what_is_built_of_it(self):
        folders = {"crates/sockets/": "sovia-sockets", "abi/preload/": "sovia-preload", "tests/": "sovia-tests", "crates/emp/": "sovia-emp"}
        dependencies = {"sovia-sockets": set(), "sovia-preload": {"sovia-sockets"}, "sovia-tests": set(), "sovia-layers": set(),
                        # For its own tests, which read its own files.
                        "sovia-emp": {"sovia-layers"}}

        def changed(*files):
            return plan.changed(files, folders, dependencies).reached - plan.READERS

        self.assertEqual(plan.changed(["crates/sockets/src/lib.rs"], folders, dependencies).packages, {"sovia-sockets"})
        self.assertEqual(changed("crates/sockets/src/lib.rs"), {"sovia-sockets", "sovia-preload", "sovia-tests"})
        self.assertEqual(changed("crates/emp/src/lib.rs"), {"sovia-emp"})
        self.assertEqual(changed("README.md"), plan.DRIVERS)
        self.assertEqual(changed("scripts/setup"), set(dependencies) - plan.READERS)

    def test_packages_whose_tests_start_products_are_known(self):
        command = ["git", "grep", "-lE", r"SOVIA_(BIN|LIB|VIPL|EMP|FI)\b", "--", "*.rs"]
        files = subprocess.run(command, cwd=suite.ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
        self.assertTrue(files)
        homes, _ = plan.workspace(suite.ROOT)
        found = {name for home, name in homes.items() if any(file.startswith(home) for file in files)}
        self.assertEqual(found, plan.DRIVERS)
        self.assertLessEqual(plan.PRODUCTS, set(homes.values()))

    def loom(self, change, commit="0"):
        """Packages whose models under loom `make test` runs, and those whose turn it is."""
        ran, models = [], suite.models
        stub = types.SimpleNamespace(change=change, commit=commit, report=Quiet(), cargo=lambda *_: None, environment=lambda *_: None)
        suite.models = lambda _, packages: ran.append(list(packages))
        rotated, suite.ROTATED = suite.ROTATED, [lambda _: None]
        try:
            suite.models_of_change(stub)
            suite.turn(stub)
        finally:
            suite.models, suite.ROTATED = models, rotated
        return ran

    def test_models_under_loom_run_where_the_change_reaches_them_or_in_turn(self):
        self.assertEqual(self.loom(self.change("via-shm"))[0], ["via-shm"])
        turns = [self.loom(self.change(), str(n)) for n in range(200)]
        self.assertTrue(all(of_change == [] for of_change, _ in turns))
        self.assertEqual({package for _, due in turns for package in due}, set(plan.LOOM))

    def test_change_reaches_what_is_built_of_it(self):
        dependencies = {"a": set(), "b": {"a"}, "c": {"b", "z"}, "d": {"z"}}
        self.assertEqual(plan.reached({"a"}, dependencies), {"a", "b", "c"})
        self.assertEqual(plan.reached({"d"}, dependencies), {"d"})
        self.assertEqual(plan.reached(set(), dependencies), set())

    def test_change_without_a_beginning_reaches_everything(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "src"))
            for name, text in (("Cargo.toml", '[package]\nname = "one"\n'), ("src/lib.rs", "")):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(text)
            self.assertEqual(plan.change(folder), plan.Change(frozenset(), frozenset({"one"})))

    def test_every_case_has_its_turn_with_some_commit(self):
        case = self.case("via-eth/conformance", "bad_network::group::case")
        self.assertTrue(any(plan.is_due(case, str(n), self.change()) for n in range(200)))
        self.assertFalse(all(plan.is_due(case, str(n), self.change()) for n in range(200)))
        self.assertTrue(all(plan.is_due(case, str(n), self.change("via-eth")) for n in range(200)))

    def test_every_part_has_its_turn(self):
        seen = {plan.turn(str(n), ["a", "b", "c", "d", "e"]) for n in range(500)}
        self.assertEqual(seen, {"a", "b", "c", "d", "e"})

    def test_every_name_of_a_part_that_is_shared_out_has_its_turn(self):
        names = [str(n) for n in range(13)]
        shares = [plan.share(str(n), names) for n in range(200)]
        self.assertEqual(sorted(set(map(len, shares))), [4, 5])
        self.assertEqual({name for one in shares for name in one}, set(names))

    def test_flaky_list_names_what_an_entry_lacks(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('[[test]]\nname = "a"\nsince = 2026-01-31\n')
            file.flush()
            with self.assertRaisesRegex(ValueError, "a lacks cause, tried"):
                flaky.read(file.name)


if __name__ == "__main__":
    unittest.main()
