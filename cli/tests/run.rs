//! Checks that a program under `sovia run` behaves like alone: status, signals, input, output, environment and look-up,
//! with `-q`, `-v`, `-vv` and without.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};

use crate::common::{Bench, Said};

/// Ways to run. Each check must hold in all of them.
const WAYS: [&[&str]; 4] = [&[], &["-q"], &["-v"], &["-vv"]];

fn always(check: impl Fn(&Bench, &[&str])) {
    let bench = Bench::new();
    for way in WAYS {
        check(&bench, way);
    }
}

fn shell(bench: &Bench, way: &[&str], script: &str) -> Said {
    bench.run(way.iter().copied().chain(["--", "/bin/sh", "-c", script]))
}

#[test]
fn the_library_is_loaded_and_the_exit_status_is_the_programs() {
    always(|bench, way| {
        for status in [0, 1, 42, 255] {
            let said = shell(bench, way, &format!("exit {status}"));
            assert_eq!((said.code(), said.loads()), (status, 1), "{said:?}");
        }
    });
}

#[test]
fn children_are_accelerated_too() {
    always(|bench, way| assert_eq!(shell(bench, way, "/bin/true; /bin/true").loads(), 3));
}

#[test]
fn a_signal_that_kills_the_program_kills_sovia() {
    always(|bench, way| {
        for signal in [libc::SIGKILL, libc::SIGTERM, libc::SIGSEGV, libc::SIGUSR1] {
            let said = shell(bench, way, &format!("kill -{signal} $$"));
            assert_eq!(said.status.signal(), Some(signal), "{said:?}");
        }
    });
}

#[test]
fn input_and_output_pass_through() {
    always(|bench, way| {
        let mut child = bench
            .sovia()
            .args(way)
            .args(["cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"through").unwrap();
        assert_eq!(child.wait_with_output().unwrap().stdout, b"through");
    });
}

#[test]
fn the_program_runs_where_standard_error_takes_nothing() {
    let run = |bench: &Bench, way: &[&str], program: &str| {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut sovia = bench.sovia();
        let output =
            sovia.args(way).args(["--", program, "-c", "echo ran; exit 3"]).stderr(full).output();
        let output = output.unwrap();
        (String::from_utf8(output.stdout).unwrap(), output.status.code())
    };
    always(|bench, way| {
        assert_eq!(run(bench, way, "/bin/sh"), ("ran\n".to_owned(), Some(3)), "{way:?}");
        // The line about this static program has no reader.
        if bench.cc("static", "int main(void) { return 3; }", &["-static"]) {
            assert_eq!(run(bench, way, "./static"), (String::new(), Some(3)), "{way:?}");
        }
        assert_eq!(run(bench, way, "./no-such-program").1, Some(127), "{way:?}");
    });
}

#[test]
fn a_result_that_cannot_be_written_is_an_error() {
    let bench = Bench::new();
    let commands: [&[&str]; 3] =
        [&["doctor", "--no-trial"], &["bench", "machine"], &["agent", "--new-key", "key"]];
    for command in commands {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut sovia = Command::new(env!("CARGO_BIN_EXE_sovia"));
        let output = sovia.args(command).current_dir(bench.path("")).stdout(full).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let expected = "cannot write to standard output: No space left on device";
        assert!(said.contains(expected), "{command:?}: {said}");
        assert_eq!(output.status.code(), Some(1), "{command:?}");
    }
}

#[test]
fn options_behind_the_program_are_the_programs() {
    let bench = Bench::new();
    let said = bench.run(["echo", "-v", "--only", "--", "x"]);
    assert_eq!((said.out.as_str(), said.code()), ("-v --only -- x\n", 0));
}

#[test]
fn ignored_and_blocked_signals_are_inherited_as_they_were() {
    always(|bench, way| {
        for ignore_pipe in [false, true] {
            let status = |command: &mut Command| {
                // SAFETY: signal and sigprocmask are async-signal-safe, so a forked child may call them before exec.
                unsafe {
                    command.pre_exec(move || {
                        let action = if ignore_pipe { libc::SIG_IGN } else { libc::SIG_DFL };
                        libc::signal(libc::SIGPIPE, action);
                        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
                        let mut set = std::mem::zeroed();
                        libc::sigaddset(&mut set, libc::SIGUSR2);
                        libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
                        Ok(())
                    });
                }
                let output =
                    command.args(["grep", "^Sig[BI]", "/proc/self/status"]).output().unwrap();
                String::from_utf8(output.stdout).unwrap()
            };
            let plain = status(Command::new("env").current_dir(bench.path(".")));
            assert!(plain.contains("SigIgn"), "{plain}");
            assert_eq!(status(bench.sovia().args(way)), plain);
        }
    });
}

#[test]
fn closed_input_and_output_stay_closed() {
    always(|bench, way| {
        let list = |command: &mut Command| {
            // SAFETY: close is async-signal-safe, so a forked child may call it before exec.
            unsafe {
                command.pre_exec(|| {
                    libc::close(0);
                    libc::close(2);
                    Ok(())
                });
            }
            let output = command.args(["sh", "-c", "echo /proc/$$/fd/*"]).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            text.split_whitespace()
                .map(|fd| fd.rsplit('/').next().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        let plain = list(&mut Command::new("env"));
        assert_eq!(list(bench.sovia().args(way)), plain);
    });
}

#[test]
fn a_program_starts_though_nothing_can_be_counted() {
    let bench = Bench::new();
    let limited = |ways: &[&str]| {
        let mut command = bench.sovia();
        command.args(ways).args(["--", "sh", "-c", "exit 5"]);
        // SAFETY: setrlimit is async-signal-safe, so a forked child may call it before exec.
        unsafe {
            command.pre_exec(|| {
                let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
                libc::setrlimit(libc::RLIMIT_FSIZE, &raw const none);
                Ok(())
            });
        }
        Said::from(command.output().unwrap())
    };
    assert_eq!(limited(&[]).code(), 5);
    let said = limited(&["-v"]);
    assert!(said.code() == 5 && said.err.contains("ulimit -f"), "{said:?}");
}

#[test]
fn a_program_starts_where_proc_is_not_mounted() {
    let test = "a_program_starts_where_proc_is_not_mounted";
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return println!("SKIPPED: {test}: only root can unmount /proc");
    }
    let script = r#"mount --make-rprivate / && umount -l /proc && exec "$@""#;
    // The library is beside the program here.
    let bench = Bench::new();
    let sovia = bench.path("sovia");
    std::fs::copy(env!("CARGO_BIN_EXE_sovia"), &sovia).unwrap();
    std::fs::rename(bench.path("preload.so"), bench.path("libsovia_preload.so")).unwrap();
    for way in [&["run"][..], &["run", "-v"]] {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "-"]).arg(&sovia);
        command.args(way).args(["--", "sh", "-c", "exit 5"]);
        let said = Said::from(command.output().unwrap());
        assert_eq!(said.code(), 5, "{said:?}");
    }
}

#[test]
fn the_program_sees_no_descriptor_of_ours() {
    always(|bench, way| {
        // The test itself may have inherited further descriptors.
        let plain = Said::from(Command::new("ls").arg("/proc/self/fd").output().unwrap());
        assert_eq!(bench.run(way.iter().copied().chain(["ls", "/proc/self/fd"])).out, plain.out);
    });
}

/// Starts a shell script that prints "ready".
fn start(
    bench: &Bench,
    way: &[&str],
    script: &str,
) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut command = bench.sovia();
    command.args(way).args(["--", "/bin/sh", "-c", script]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A shell cannot trap a signal that it ignores from its start, as it may for tests in the background. SAFETY:
    // signal is async-signal-safe, so a forked child may call it before exec.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            libc::signal(libc::SIGQUIT, libc::SIG_DFL);
            Ok(())
        });
    }
    let mut child = command.process_group(0).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(line(&mut out), "ready");
    (child, out)
}

fn line(out: &mut impl BufRead) -> String {
    let mut text = String::new();
    out.read_line(&mut text).unwrap();
    text.trim_end().to_owned()
}

fn send(child: &Child, signal: i32) {
    // SAFETY: kill has no preconditions. The child has not been waited for, so its process ID is not reused.
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
}

#[test]
fn signals_sent_to_sovia_reach_the_program() {
    let signals = ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "WINCH"];
    let numbers = [15, 2, 1, 3, 10, 12, 28];
    always(|bench, way| {
        let traps: String =
            signals.iter().map(|name| format!("trap 'echo {name}' {name}; ")).collect();
        let script =
            format!("{traps} trap 'exit 7' CONT; echo ready; while :; do sleep 0.02; done");
        let (mut child, mut out) = start(bench, way, &script);
        for (name, number) in signals.iter().zip(numbers) {
            send(&child, number);
            assert_eq!(line(&mut out), *name);
        }
        send(&child, libc::SIGCONT);
        assert_eq!(child.wait().unwrap().code(), Some(7));
    });
}

#[test]
fn killing_sovia_kills_the_program() {
    always(|bench, way| {
        let (mut child, mut out) = start(bench, way, "echo ready; exec sleep 1000");
        child.kill().unwrap();
        child.wait().unwrap();
        // The program holds the pipe until it ends.
        assert_eq!(line(&mut out), "");
    });
}

#[test]
fn a_stopped_program_is_a_stopped_job() {
    always(|bench, way| {
        // Sends SIGTSTP, like a terminal. (A process that stops a program by SIGSTOP continues it by its process ID.)
        let (mut child, mut out) = start(bench, way, "echo ready; kill -TSTP $$; echo on; exit 3");
        let mut status = 0;
        // SAFETY: `status` is a live local, and the child is this process's own.
        let waited = unsafe { libc::waitpid(child.id() as i32, &mut status, libc::WUNTRACED) };
        assert_eq!(waited, child.id() as i32);
        assert!(libc::WIFSTOPPED(status), "{way:?}: {status:#x}");
        send(&child, libc::SIGCONT);
        assert_eq!(line(&mut out), "on");
        assert_eq!(child.wait().unwrap().code(), Some(3));
    });
}

#[test]
fn a_signal_to_the_group_from_the_program_is_not_sent_twice() {
    let bench = Bench::new();
    let script = "trap 'n=$((n+1))' USR1; echo ready; kill -USR1 0; sleep 0.2; echo $n";
    let (mut child, mut out) = start(&bench, &["-v"], script);
    assert_eq!(line(&mut out), "1");
    assert!(child.wait().unwrap().success());
}

#[test]
fn programs_are_found_as_a_shell_finds_them() {
    always(|bench, way| {
        bench.file("here", "#!/bin/sh\necho $0", 0o755);
        bench.file("shut", "#!/bin/sh\n", 0o644);
        let run = |program: &str| bench.run(way.iter().copied().chain([program]));
        assert_eq!(run("./here").out, "./here\n");
        for (program, status, word) in [
            ("no-such-program", 127, "not found in PATH"),
            ("./no-such-program", 127, "no such file"),
            ("", 127, "not found"),
            ("./shut", 126, "not executable"),
            ("/", 126, "folder"),
        ] {
            let said = run(program);
            assert_eq!(said.code(), status, "{program}: {said:?}");
            assert!(said.err.starts_with("sovia: ") && said.err.contains(word), "{said:?}");
            assert_eq!(said.err.lines().count(), 1, "{said:?}");
        }
        // The search skips a file without permission. Such a file is the error only if no other is found.
        let other = bench.path("other");
        std::fs::create_dir_all(&other).unwrap();
        std::fs::write(other.join("here"), "").unwrap();
        let path = format!("{}:{}", other.display(), bench.path(".").display());
        let found =
            Said::from(bench.sovia().args(way).arg("here").env("PATH", &path).output().unwrap());
        assert!(found.out.ends_with("here\n"), "{found:?}");
        let refused =
            Said::from(bench.sovia().args(way).arg("here").env("PATH", &other).output().unwrap());
        assert_eq!(refused.code(), 126, "{refused:?}");
    });
}

#[test]
fn rules_reach_the_program_and_wrong_ones_do_not() {
    let bench = Bench::new();
    let said = bench.run([
        "--only",
        "port=6379",
        "--except",
        "program=x, addr=::1",
        "printenv",
        "SOVIA_RULES",
    ]);
    assert_eq!(said.out, "only:port=6379;except:addr=::1,program=x\n");

    let said = bench.run(["--respect-filters", "printenv", "SOVIA_RULES"]);
    assert_eq!(said.out, "respect-filters:port=1-65535\n");
    let said = bench.run(["--respect-filters=port=80", "printenv", "SOVIA_RULES"]);
    assert_eq!(said.out, "respect-filters:port=80\n");

    let said = bench.run(["--except", "port=http", "true"]);
    assert_eq!(said.code(), 125);
    assert!(said.err.contains("--except") && said.err.contains("port=http"), "{said:?}");

    let said =
        Said::from(bench.sovia().arg("true").env("SOVIA_RULES", "nonsense").output().unwrap());
    assert_eq!(said.code(), 125);
    assert!(said.err.contains("SOVIA_RULES"), "{said:?}");
}

#[test]
fn users_are_named_by_people_and_numbered_for_the_program() {
    let bench = Bench::new();
    let rules = |spec: &str| bench.run(["--trust", spec, "printenv", "SOVIA_RULES"]).out;
    assert_eq!(rules("user=root"), "trust:uid=0\n");
    assert_eq!(rules("port=6379, user=daemon"), "trust:port=6379,uid=1\n");
    assert_eq!(rules("group=daemon"), "trust:uid=1\n");
    assert_eq!(rules("any"), "trust:any\n");

    for (wrong, named) in [
        ("user=no-such-user", "there is no user `no-such-user`"),
        ("user=", "there is no user ``"),
        ("group=no-such-group", "there is no group `no-such-group`"),
        ("port=6379", "needs users"),
        ("uid=root", "uid=root"),
        ("redis", "`redis`"),
    ] {
        let said = bench.run(["--trust", wrong, "true"]);
        assert_eq!(said.code(), 125, "{said:?}");
        assert!(said.err.contains("--trust") && said.err.contains(named), "{said:?}");
    }

    let from_environment = |rules: &str| {
        let mut command = bench.sovia();
        Said::from(
            command.args(["printenv", "SOVIA_RULES"]).env("SOVIA_RULES", rules).output().unwrap(),
        )
    };
    let said = from_environment("except:port=1; trust:user=root");
    assert_eq!(said.out, "except:port=1;trust:uid=0\n");
    let said = from_environment("trust:user=no-such-user");
    assert_eq!(said.code(), 125);
    assert!(said.err.contains("SOVIA_RULES") && said.err.contains("no-such-user"), "{said:?}");
}

#[test]
fn protocols_reach_the_program_and_wrong_ones_do_not() {
    let bench = Bench::new();
    let said = bench.run(["--protocol", "SOVIA_COMBINE,w=8,t=4", "printenv", "SOVIA_PROTOCOL"]);
    assert_eq!(said.out, "SOVIA_COMBINE,w=8,t=4\n");

    for (wrong, named) in [
        ("SOVIA_FAST", "SOVIA_FAST"),
        ("w=4,t=5", "t is 5"),
        ("w=", "w"),
        ("3way", "three-way"),
        ("w=99", "1 to 32"),
    ] {
        let said = bench.run(["--protocol", wrong, "true"]);
        assert_eq!(said.code(), 125);
        assert!(said.err.contains("--protocol") && said.err.contains(named), "{said:?}");
    }

    let said =
        Said::from(bench.sovia().arg("true").env("SOVIA_PROTOCOL", "nonsense").output().unwrap());
    assert_eq!(said.code(), 125);
    assert!(said.err.contains("SOVIA_PROTOCOL"), "{said:?}");

    let said =
        Said::from(bench.sovia().arg("true").env("SOVIA_PROTOCOL", "w=99").output().unwrap());
    assert_eq!(said.code(), 125);
    let expected = "sovia: SOVIA_PROTOCOL: w is 99, and must be 1 to 32 packets for sockets\n";
    assert_eq!(said.err, expected);
}

#[test]
fn a_library_that_is_there_already_stays() {
    let bench = Bench::new();
    let mut command = bench.sovia();
    let output =
        command.args(["printenv", "LD_PRELOAD"]).env("LD_PRELOAD", "libm.so.6").output().unwrap();
    let ours = std::fs::canonicalize(bench.path("preload.so")).unwrap();
    assert_eq!(Said::from(output).out, format!("{}:libm.so.6\n", ours.display()));
}

#[test]
fn without_the_library_nothing_runs() {
    let bench = Bench::new();
    let mut command = bench.sovia();
    let said =
        Said::from(command.arg("true").env("SOVIA_PRELOAD", "/no/such.so").output().unwrap());
    assert_eq!(said.code(), 125);
    assert!(said.err.contains("/no/such.so"), "{said:?}");
}

#[test]
fn verbose_reports_what_all_processes_counted() {
    let bench = Bench::new();
    let said = bench.run(["-v", "/bin/sh", "-c", "/bin/true; /bin/true"]);
    assert!(said.err.contains("accelerated: 3"), "{said:?}");
    let said = bench.run(["/bin/sh", "-c", "/bin/true"]);
    assert!(!said.err.contains("sovia"), "{said:?}");
}

#[test]
fn more_words_say_what_fewer_say_and_more() {
    let bench = Bench::new();
    let said = |way: &[&str]| {
        let said = bench.run(way.iter().copied().chain(["--except", "port=22", "/bin/true"]));
        said.err.replace("[loaded]", "")
    };
    let [results, reasons] = [said(&["-v"]), said(&["-v", "-v"])];
    let is_kept = results.lines().all(|line| reasons.lines().any(|other| other == line));
    assert!(is_kept && results.contains("accelerated"), "{reasons}");
    for line in ["program:  /bin/true", "preload.so", "rules:    except:port=22", "threads slept"] {
        assert!(reasons.contains(line) && !results.contains(line), "{reasons}");
    }
    assert_eq!([said(&["-q"]), said(&[])], ["", ""]);
    let both = bench.run(["-q", "-v", "/bin/true"]);
    // A program may end with any other status.
    assert!(both.code() == 125 && both.err.contains("cannot be used with"), "{both:?}");
}

#[test]
fn misspelt_words_and_values_without_a_meaning_are_named() {
    let bench = Bench::new();
    for (words, expected) in [
        (&["--trst", "any"][..], "a similar argument exists: '--trust'"),
        (&["--trust", "usr=redis"], "did you mean `user`?"),
        (&["--only", "prot=80"], "did you mean `port`?"),
        (&["--protocol", "SOVIA_COMBIN"], "did you mean `SOVIA_COMBINE`?"),
    ] {
        let said = bench.run(words.iter().copied().chain(["true"]));
        assert!(said.code() == 125 && said.err.contains(expected), "{said:?}");
    }
    let with = |variable: &str, value: &str, way: &[&str]| {
        let mut command = bench.sovia();
        Said::from(command.args(way).arg("true").env(variable, value).output().unwrap())
    };
    let said = with("SOVIA_RULES", "exceptx:port=22", &[]);
    assert!(said.code() == 125 && said.err.contains("did you mean `except`?"), "{said:?}");
    let said = with("SOVIA_SPIN", "fast", &[]);
    assert!(said.code() == 125 && said.err.contains("SOVIA_SPIN: expected micro"), "{said:?}");
    let said = with("SOVIA_MEMRY", "512", &[]);
    assert!(said.code() == 0 && said.err.contains("did you mean SOVIA_MEMORY?"), "{said:?}");
    let said = with("SOVIA_MEMRY", "512", &["-q"]);
    assert!(said.code() == 0 && !said.err.contains("SOVIA_MEMORY"), "{said:?}");
}

#[test]
fn a_small_stack_is_enough() {
    let bench = Bench::new();
    let limited = |program: &str, arguments: &str| {
        let mut sovia = bench.sovia();
        let mut shell = Command::new("/bin/sh");
        let line = format!("ulimit -s 64; exec {program} {arguments}");
        shell.args(["-c", &line]).current_dir(bench.path("."));
        shell.envs(sovia.env("A", "b").get_envs().filter_map(|(name, value)| Some((name, value?))));
        Said::from(shell.output().unwrap())
    };
    let sovia = env!("CARGO_BIN_EXE_sovia");
    for words in ["run", "run -v"] {
        let said = limited(sovia, &format!("{words} /bin/sh -c 'ulimit -s; exit 5'"));
        assert_eq!((said.code(), said.out.as_str()), (5, "64\n"), "{words}: {said:?}");
        assert!(said.loads() == 1, "{words}: {said:?}");
    }
    for words in ["", "bench", "doctor", "agent", "lane", "ps"] {
        let said = limited(sovia, &format!("{words} --help"));
        assert!(said.code() == 0 && said.out.contains("Usage"), "{words}: {said:?}");
    }
}
