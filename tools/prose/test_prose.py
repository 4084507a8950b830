"""Tests of the rules and of `scripts/prose` as a program.

Each rule has texts that it must find and texts that it must leave alone.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TOOL = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(TOOL))

import rules  # noqa: E402
import source  # noqa: E402

WORDS = rules.Words(["spoilt, recall | corrupt", "favour | bias | in favour of", "is told | notified | told apart"])
LONG = "The reader copies the bytes of a packet out of the ring " + "and then into the next buffer " * 3


def found(path, content):
    """Returns the set of (line, rule) that the rules find in a file of that name."""
    return {
        (text.line(start), rule)
        for text in source.texts(path, content)
        for start, _, rule, _ in rules.findings(text, WORDS)
    }


def rules_in(comment):
    """Returns the rules that are broken by a comment in a Rust file."""
    return {rule for _, rule in found("crates/x/src/lib.rs", f"/// {comment}\nfn f() {{}}\n")}


def broken_by_subject(subject):
    return {rule for rule, _ in rules.findings_of_subject(subject, WORDS)}


class Rules(unittest.TestCase):
    def check(self, rule, bad, good, broken=rules_in):
        for text in bad:
            with self.subTest(rule=rule, must_find=text):
                self.assertIn(rule, broken(text))
        for text in good:
            with self.subTest(rule=rule, must_leave_alone=text):
                self.assertNotIn(rule, broken(text))

    def test_opening(self):
        self.check(
            "opening",
            bad=[
                "What the peer wrote last.", "Where the ring begins.", "Whether that is a socket.", "Whether it sleeps.",
                "It's closed.", "It is closed.", "That many bytes.", "One that was closed.", "The same for IPv6.",
                "As [`Ring::push`], for two packets.", "Has the next packet sent by the NIC.",
            ],
            good=[
                "Returns the last packet.", "Whether the socket is open.", "Whatever the peer wrote is dropped.",
                "Items are counted.", "Has no effect on TCP.", "Has been closed by the peer.", "Assigns a number.",
                "What if the ring is full?", "One of the two rings.", "`What` is a type.", "The same-host path.",
            ],
        )

    def test_opening_concerns_the_first_paragraph_alone(self):
        self.assertEqual(found("a/src/b.rs", "/// Returns a ring.\n///\n/// It has a lock.\n"), set())
        self.assertEqual(found("a/src/b.rs", "// Sends.\nf();\n    // It has a lock.\n"), {(3, "opening")})

    def test_construction(self):
        self.check(
            "construction",
            bad=[
                "Rings of which the last is full.", "Takes what there is.", "A packet that is to be sent.",
                "Packets that are to be sent.", "Fails for want of memory.", "A socket, be it open or closed.",
                "Closes otherwise than by shutdown.", "The agent has the program told.", "It then has each packet taken.",
                "The lock is the kernel's.", "This memory is libc's, not ours.", "Two threads of the program's.",
            ],
            good=[
                "Two rings, each of which has a lock.", "Counts them regardless of which came first.",
                "The goal is to be fast.", "It has already taken the lock.", "The peer has been told.",
                "The kernel's lock is held.", "The default is the kernel's default.", "An address of the program's choice.",
                "The flag must be it.", "Runs otherwise.", "Code: `of which`, in backquotes.",
            ],
        )

    def test_person(self):
        self.check(
            "person",
            bad=["Wakes whoever waits.", "Nobody reads the ring.", "The thread who holds the lock.", "Until somebody reads."],
            good=[
                "Wakes the threads that wait.", "A user who has no key.", "Readers of this page, whoever they are.",
                "A process whose parent exited.",
            ],
        )

    def test_person_in_a_section_about_people(self):
        self.assertEqual(found("a.md", "# Rings\n\nNobody waits.\n\n# Trust\n\nNobody waits.\n"), {(3, "person")})

    def test_long(self):
        self.check("long", bad=[LONG + "."], good=["Sends a packet. " * 20, "Calls `a b c " + "d " * 30 + "` once."])
        self.assertEqual(
            found("a/src/b.rs", "// Sends.\n// " + LONG[:60] + "\n// " + LONG[60:] + " all.\n"), {(2, "long")}
        )
        self.assertEqual(found("a.md", "- " + "one item\n- " * 40 + "end\n"), set())

    def test_long_knows_abbreviations_and_versions(self):
        self.check("long", bad=["Takes " + "some rings e.g. two " * 7 + "."], good=["Takes Linux 6.1 or later."])

    def test_it(self):
        def error(text):
            return {rule for _, rule in found("cli/src/main.rs", f'fn f() {{ bail!("{text}"); }}')}

        def test_name(name):
            return {rule for _, rule in found("tests/tests/a.rs", f"#[test]\nfn {name}() {{}}\n")}

        self.check("it", ["it has gone", "cannot open {path}: is it a file?"], ["cannot wait", "item {it} is bad"], error)
        self.check("it", ["ring_works_as_it_is"], ["item_is_sent", "full_ring_refuses_packets"], test_name)

    def test_it_concerns_errors_and_names_of_tests_alone(self):
        self.assertEqual(rules_in("Closes the ring and frees it."), set())
        self.assertEqual(found("cli/src/main.rs", 'fn it() { let text = "it has gone"; }'), set())
        self.assertEqual(found("cli/tests/a.rs", 'fn f() { bail!("it has gone"); }'), set())
        self.assertEqual(found("cli/src/a.rs", '#[cfg(test)]\nmod tests {\n fn f() { bail!("it has gone"); } }'), set())

    def test_kinds_of_errors(self):
        for code in (
            'anyhow!("it is gone")', 'ensure!(a == b, "it is gone")', '.context("it is gone")',
            '.with_context(|| format!("it is gone"))', '#[error("it is gone")]', 'eprintln!("it is gone")',
            'Error::other("it is gone")', 'Error::new(ErrorKind::Other, "it is gone")', 'Err("it is gone".into())',
            'bail!(\n    r#"it is gone"#)',
        ):
            with self.subTest(code=code):
                self.assertEqual({rule for _, rule in found("cli/src/main.rs", code)}, {"it"})

    def test_safety(self):
        def safety(text):
            return {rule for _, rule in found("a/src/b.rs", f"// SAFETY: {text}\nunsafe {{}}\n")}

        self.check(
            "safety", ["as above.", "the caller vouches for `p`.", "`p` is valid, see above."],
            ["`p` points into the mapping, which outlives `self`."], safety,
        )
        self.check("safety", [], ["Works as above, and vouches for nothing."])

    def test_word(self):
        self.check(
            "word",
            bad=["The agent is told.", "Drops a spoilt packet.", "Spoilt packets.", "Sends a recall."],
            good=[
                "One is told apart by its key.", "Drops a corrupt packet.", "Decides in favour of TCP.", "Calls `recall`.",
                "The recall-count field.",
            ],
        )

    def test_every_line_of_the_table_of_words(self):
        table = rules.Words((TOOL / "words.txt").read_text().splitlines())
        self.assertGreater(len(table.better), 20)
        for word, better in table.better.items():
            self.assertTrue(better, word)
            self.assertEqual([advice for _, _, advice in table.findings(f"the {word} of")], [better], word)

    def test_subject(self):
        self.check(
            "subject",
            bad=[
                "sockets: a ring has a lock", "sockets: rings have locks", "sockets: added a lock", "sockets: adding a lock",
                "Add a lock", "sockets add a lock", "Sockets: add a lock", "sockets: add " + "locks and " * 8,
            ],
            good=[
                "sockets: add a lock", "docs/research/rdma.md: add figures", "via-verbs, agent: close the NIC", "README: shorten",
                "bench papers --from: print the files", "sockets: bring a lock", "cli: address a review",
                "Revert \"Sockets add a lock\"",
            ],
            broken=broken_by_subject,
        )
        self.assertEqual(broken_by_subject("sockets: wake whoever waits"), {"person"})


class Languages(unittest.TestCase):
    """Each comment is found at its line, and nothing else is taken for a comment."""

    def test_rust(self):
        code = (
            "//! It is a crate.\n"
            "fn f<'a>(c: char) -> &'a str {\n"
            "    if c == '\"' || c == '\\'' { return \"// It is a string\"; } // It is a comment\n"
            "    r#\"/* It is \" a string */\"#\n"
            "}\n"
            "/* It is a block */\n"
        )
        self.assertEqual(found("a/src/b.rs", code), {(1, "opening"), (3, "opening"), (6, "opening")})

    def test_code_in_documentation(self):
        self.assertEqual(found("a/src/b.rs", "/// Sends.\n/// ```\n/// // spoilt\n/// ```\n/// Spoilt.\n"), {(5, "word")})

    def test_c_and_go(self):
        code = '/*\n * It is a file.\n */\nchar *s = "// It"; // It ends\n'
        self.assertEqual(found("a.c", code), {(2, "opening"), (4, "opening")})
        code = '// It is.\nvar s = `// It`\nvar e = errors.New("it is")\n'
        self.assertEqual(found("lang/go/a.go", code), {(1, "opening"), (3, "it")})

    def test_python(self):
        code = '#!/usr/bin/env python3\n"""It is a program."""\nS = "# It is a string"\n'
        code += 'def f():\n\n    """It is."""\n    # It is.\n'
        self.assertEqual(found("scripts/x", code), {(2, "opening"), (6, "opening"), (7, "opening")})

    def test_shell_and_configuration(self):
        code = "#!/bin/sh\n# It is.\necho '# It is' \"a # It\"\necho a # It is\n"
        self.assertEqual(found("x", code), {(2, "opening"), (4, "opening")})
        self.assertEqual(found("x.toml", "a = 1 # It is\n"), {(1, "opening")})

    def test_markdown(self):
        page = "# Spoilt\n\nA `spoilt` [packet](spoilt.md).\n\n    spoilt code\n\n"
        page += "```\nspoilt\n```\n| a | `spoilt` | spoilt |\n"
        self.assertEqual(found("a.md", page), {(1, "word"), (10, "word")})

    def test_files_left_out(self):
        self.assertEqual(found("Cargo.lock", "# It is\n"), set())
        self.assertEqual(found("a.jsonl", "# It is\n"), set())


class Program(unittest.TestCase):
    """`scripts/prose` in a repository of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("scripts/prose", (TOOL.parent.parent / "scripts/prose").read_text())
        for name in ("source.py", "rules.py", "words.txt", "allowed.txt"):
            self.write(f"tools/prose/{name}", (TOOL / name).read_text())
        self.write("typos.toml", (TOOL.parent.parent / "typos.toml").read_text())
        self.write("tools/prose/count.txt", "# Counts.\n")
        self.write("a.rs", "// It was here before.\nfn f() {}\n")
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("all: begin")

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def git(self, *arguments):
        identity = ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *arguments], cwd=self.root, check=True, stdout=subprocess.DEVNULL)

    def commit(self, subject):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", subject)

    def prose(self, *arguments, **environment):
        command = [sys.executable, "-B", str(self.root / "scripts/prose"), *arguments]
        done = subprocess.run(
            command, cwd=self.root, env={**os.environ, **environment}, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        return done.returncode, done.stdout

    def test_added_lines_alone_are_checked(self):
        self.git("checkout", "--quiet", "-b", "change")
        self.write("a.rs", "// It was here before.\nfn f() {}\n// Closes the ring.\nfn g() {}\n")
        self.assertEqual(self.prose()[0], 0, self.prose()[1])
        self.write("a.rs", "// It was here before.\nfn f() {}\n// It is new.\nfn g() {}\n")
        status, output = self.prose()
        self.assertEqual(status, 1)
        self.assertIn("a.rs:3: opening: It is new.", output)
        self.assertNotIn("a.rs:1:", output)
        self.commit("rings: add a function")
        self.assertIn("a.rs:3: opening", self.prose()[1])
        self.assertIn("a.rs:3: opening", self.prose("--base", "main")[1])

    def test_new_file_and_new_subject_are_checked(self):
        self.git("checkout", "--quiet", "-b", "change")
        self.write("new.rs", "// Closes the ring.\n// It is spoilt.\n")
        self.assertIn("new.rs:2: word: ", self.prose()[1])
        self.write("new.rs", "// Closes the ring.\n")
        self.commit("A new file")
        status, output = self.prose()
        self.assertEqual(status, 1)
        self.assertIn("subject: A new file", output)

    def test_last_commit_is_checked_on_main(self):
        self.assertIn("no commit is checked", self.prose()[1])
        self.write("a.rs", "// It was here before.\nfn f() {}\n// It is new.\n")
        self.commit("A new comment")
        status, output = self.prose()
        self.assertEqual(status, 1)
        self.assertIn("subject: A new comment", output)
        self.assertIn("a.rs:3: opening", output)
        self.assertNotIn("a.rs:1:", output)

    def test_line_with_another_indentation_is_not_checked(self):
        self.write("a.rs", "mod a {\n    // It was here before.\n    fn f() {}\n}\n")
        self.assertEqual(self.prose()[0], 0, self.prose()[1])

    def test_moved_line_is_not_checked(self):
        self.git("checkout", "--quiet", "-b", "change")
        self.write("a.rs", "fn f() {}\n")
        self.write("b.rs", "mod b {\n    // It was here before.\n}\n")
        self.git("add", "--all")
        self.assertEqual(self.prose()[0], 0, self.prose()[1])

    def test_allowed_place_is_not_found(self):
        self.write("new.rs", "// It may stand here.\n")
        self.write("tools/prose/allowed.txt", "new.rs | opening | may stand\n")
        self.assertNotIn("new.rs:1", self.prose()[1])

    def test_count_may_fall_only(self):
        self.assertEqual(self.prose("--count")[0], 1)  # nothing is stored yet
        self.assertEqual(self.prose("--accept")[0], 0)
        stored = (self.root / "tools/prose/count.txt").read_text()
        self.assertIn("opening 1\n", stored)
        self.assertEqual(self.prose("--count")[0], 0)

        self.write("b.rs", "// It is one more.\n")
        for mode in ("--count", "--accept"):
            status, output = self.prose(mode)
            self.assertEqual(status, 1)
            self.assertIn("MORE than 1", output)
            self.assertEqual((self.root / "tools/prose/count.txt").read_text(), stored)

        self.write("b.rs", "")
        self.write("a.rs", "// Opens the ring.\n")
        status, output = self.prose("--count")
        self.assertEqual(status, 0)
        self.assertIn("fewer than 1: store it with --accept", output)
        self.assertEqual(self.prose("--accept")[0], 0)
        self.assertIn("opening 0\n", (self.root / "tools/prose/count.txt").read_text())

    def test_spelling_is_skipped_without_typos(self):
        git = shutil.which("git")
        (self.root / "bin").mkdir()
        (self.root / "bin/git").symlink_to(git)
        status, output = self.prose(PATH=str(self.root / "bin"), CARGO_TARGET_DIR=str(self.root / "target"))
        self.assertEqual(status, 0, output)
        self.assertIn("skipped: spelling", output)

    def test_misspelt_word_is_found(self):
        target = os.environ.get("CARGO_TARGET_DIR", TOOL.parent.parent / "target")
        typos = shutil.which("typos") or shutil.which(f"{target}/typos/bin/typos")
        if not typos:
            self.skipTest("typos is not installed")
        environment = {"PATH": os.path.dirname(typos) + ":" + os.environ["PATH"]}
        wrong = "rec" + "ieve"
        self.write("new.rs", f"// Closes the ring.\n// Packets to {wrong}.\n")
        status, output = self.prose(**environment)
        self.assertEqual(status, 1)
        self.assertIn(f"new.rs:2: spelling: {wrong}", output)
        self.assertIn(f"new.rs:2: spelling: {wrong}", self.prose("--list", "spelling", **environment)[1])
        self.write("new.rs", "// Closes the ring.\n")
        self.assertEqual(self.prose(**environment)[0], 0)

    def test_unknown_base_is_an_error(self):
        status, output = self.prose("--base", "nowhere")
        self.assertEqual(status, 1)
        self.assertIn("cannot find commit nowhere", output)


if __name__ == "__main__":
    unittest.main()
