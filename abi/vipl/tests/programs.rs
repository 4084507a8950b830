//! C programs that do not know Sovia, linked with `-lvipl`.

use crate::common::{agent, program, run, skipped, watched};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

fn arguments() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| program("arguments"))
}

fn pairs() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| program("pairs"))
}

#[test]
fn every_wrong_argument_is_refused() {
    run(&mut watched(60, false, arguments()));
}

#[test]
fn every_wrong_argument_is_refused_under_valgrind() {
    if !skipped("every_wrong_argument_is_refused_under_valgrind", "valgrind") {
        run(&mut watched(200, true, arguments()));
    }
}

#[test]
fn unknown_provider_is_named_in_the_error() {
    let output = watched(20, false, arguments())
        .env("SOVIA_VIPL_PROVIDER", "carrier-pigeon")
        .output()
        .expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("SOVIA_VIPL_PROVIDER=carrier-pigeon"), "{told}");
    assert!(!output.status.success());
}

#[test]
fn errors_are_logged_until_the_program_says_otherwise() {
    let output = watched(60, false, arguments()).output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let logged = told.lines().filter(|line| line.contains("VINIC: VIP_ERROR_POST_DESC VI 0x"));
    // Of five errors, four go to the program's own handler.
    assert_eq!(logged.count(), 1, "{told}");
}

#[test]
fn a_child_connects_to_its_parent() {
    let program = program("forked");
    for run_number in 0..10 {
        let name = format!("forked-{}-{run_number}", std::process::id());
        run(watched(60, false, &program).arg(name));
    }
}

/// A program that may not start threads still gets its callbacks. (Root is not subject to this limit.)
#[test]
fn callbacks_need_no_thread() {
    const NO_LIMIT: i32 = 77;
    let output = watched(60, false, &program("threadless")).output().expect("it runs");
    if output.status.code() == Some(NO_LIMIT) {
        println!("SKIPPED: callbacks_need_no_thread: threads cannot be limited here");
        return;
    }
    assert!(output.status.success(), "{}", tell("alone", &Ok(output)));
}

/// If each device name has its own NIC, the program's check that the NICs are the same fails.
#[test]
fn devices_may_be_told_apart() {
    let told = |setting: &str| {
        let mut command = watched(60, false, arguments());
        let output = command.env("SOVIA_VIPL_NIC", setting).output().expect("it runs");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    assert_eq!(told("some-name"), (true, "ok\n".into()));
    let (good, said) = told("*");
    assert!(!good && said.contains("memcmp(first, a.LocalNicAddress"), "{said}");
}

/// Runs both ends of a case with NICs in shared memory, under valgrind if requested.
fn pair(case: &str, valgrind: bool) {
    pair_with(case, valgrind, |_| Vec::new());
}

/// Runs both ends of a case with the settings of each role.
fn pair_with(case: &str, valgrind: bool, settings: impl Fn(&str) -> Vec<(&'static str, String)>) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // The name is short, because a discriminator has few bytes.
    let name = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let start = |role: &str| {
        watched(if valgrind { 200 } else { 60 }, valgrind, pairs())
            .args([role, case, &name])
            .envs(settings(role))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs")
    };
    let (server, client) = (start("server"), start("client"));
    let ends = [("server", server.wait_with_output()), ("client", client.wait_with_output())];
    let told: Vec<String> = ends.iter().map(|(role, output)| tell(role, output)).collect();
    let good = ends.iter().all(|(_, output)| output.as_ref().is_ok_and(|o| o.status.success()));
    assert!(good, "{case}\n{}", told.join("\n"));
}

fn tell(role: &str, output: &std::io::Result<Output>) -> String {
    match output {
        Ok(output) => {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            format!("{role} {}\n{}{}", output.status, text(&output.stdout), text(&output.stderr))
        }
        Err(error) => format!("{role}: {error}"),
    }
}

macro_rules! pairs {
    ($($case:ident),+ $(,)?) => {
        $(
            #[test]
            fn $case() {
                pair(stringify!($case), false);
            }
        )+

        /// Runs the cases with NICs at an agent that both ends share.
        #[test]
        fn pairs_at_an_agent() {
            let name = format!("vipl-{}", std::process::id());
            agent::start(&name, "127.0.0.1:0");
            // Cases that need longer messages, or shorter discriminators, than those of a NIC in software.
            const OTHERS: [&str; 2] = ["accepting_with_another", "plain_address"];
            let cases = [$(stringify!($case)),+].into_iter();
            for case in cases.filter(|case| !OTHERS.contains(case)) {
                pair_with(case, false, |_| agent::settings(&name).into());
            }
        }

        /// Runs the cases with an RDMA NIC for each end, if the environment names a device and its address.
        #[test]
        fn pairs_on_a_nic_for_rdma() {
            pairs_over_rdma("pairs_on_a_nic_for_rdma", &[$(stringify!($case)),+]);
        }

        /// Runs the cases under valgrind: no end may use memory that it does not own or that is uninitialized.
        #[test]
        #[ignore = "takes long: the same without valgrind runs always"]
        fn pairs_under_valgrind() {
            if !skipped("pairs_under_valgrind", "valgrind") {
                [$(stringify!($case)),+].into_iter().for_each(|case| pair(case, true));
            }
        }
    };
}

pairs! {
    polling,
    waiting,
    completion_queue,
    notifications,
    queue_notifications,
    tagged,
    tagged_notifications,
    rdma_writes,
    rdma_reads,
    disconnecting,
    too_long,
    rejecting,
    mismatching,
    accepting_with_another,
    quality_of_service,
    peers,
    plain_address,
    dying,
    unreliable,
    reliable_reception,
    overrun,
    segments,
    threads,
}

/// Runs pairs whose ends have a NIC each on one device. They find each other by a file of hosts.
fn pairs_over_rdma(test: &str, cases: &[&str]) {
    // Cases that need features that an RDMA NIC does not offer, or a second NIC at a port in use.
    const OTHERS: [&str; 3] = ["accepting_with_another", "reliable_reception", "unreliable"];
    let Some(address) = std::env::var_os("SOVIA_RDMA_ADDRESS") else {
        return println!("SKIPPED: {test}: SOVIA_RDMA_ADDRESS names no NIC for RDMA (make lab)");
    };
    let place = |role: &str| {
        let port = if role == "server" { 7481 } else { 7482 };
        format!("{}:{port}", address.to_string_lossy())
    };
    let hosts = crate::common::folder().join("hosts");
    let lines = ["server", "client"].map(|role| format!("{} {role}\n", place(role)));
    fs::write(&hosts, lines.concat()).expect("a file of hosts");
    for case in cases.iter().filter(|case| !OTHERS.contains(case)) {
        pair_with(case, false, |role| {
            vec![
                ("SOVIA_VIPL_PROVIDER", "verbs".to_owned()),
                ("SOVIA_VIPL_NIC", place(role)),
                ("SOVIA_VIPL_HOSTS", hosts.display().to_string()),
            ]
        });
    }
}

/// Runs a beginner's first program between two of its builds, many times. Resources freed at its end must be free at
/// once, and the program must print no error.
fn pingpong(first: &Path, second: &Path) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..20 {
        let name = format!("pp{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mut server = watched(60, false, first);
        let server = server.args(["-s", &name]).stderr(Stdio::piped()).stdout(Stdio::null());
        let server = server.spawn().expect("it runs");
        run(watched(60, false, second).arg(&name));
        let output = server.wait_with_output();
        let good =
            output.as_ref().is_ok_and(|output| output.status.success() && output.stderr.is_empty());
        assert!(good, "{}", tell("server", &output));
    }
}

/// Builds the first program with a compiler and arguments.
fn built(compiler: &str, name: &str, arguments: &[&str]) -> PathBuf {
    let program = crate::common::folder().join(name);
    let mut command = Command::new(compiler);
    command.arg("-I").arg(crate::common::include()).args(["-Wall", "-Wextra", "-pedantic"]);
    run(command.args(arguments).arg("-o").arg(&program));
    program
}

#[test]
fn a_first_program_in_c99_and_cpp() {
    let source = crate::common::here().join("tests/c/pingpong.c").display().to_string();
    let place = crate::common::library().parent().expect("a library lies in a folder").display();
    let (linked, found) = (format!("-L{place}"), format!("-Wl,-rpath,{place}"));
    let rest = ["-Werror", &linked, &found];
    let c = [&["-std=c99", &source, "-lvipl"], &rest[..]].concat();
    let c = built("cc", "pingpong-c99", &c);
    pingpong(&c, &c);
    if !skipped("a_first_program_in_c99_and_cpp", "g++") {
        let cpp = [&["-std=c++17", "-xc++", &source, "-xnone", "-lvipl"], &rest[..]].concat();
        pingpong(&c, &built("g++", "pingpong-cpp17", &cpp));
    }
}

/// Links everything statically, like `pkg-config --static`.
#[test]
fn a_first_program_without_shared_libraries() {
    let source = crate::common::here().join("tests/c/pingpong.c").display().to_string();
    let archive = crate::common::archive().display().to_string();
    let private =
        fs::read_to_string(crate::common::here().join("vipl.pc.in")).expect("the template");
    let private = private.lines().find_map(|line| line.strip_prefix("Libs.private:"));
    let private: Vec<&str> = private.expect("what it needs").split_whitespace().collect();
    let all = [&["-static", "-std=c99", &source, &archive], &private[..]].concat();
    let program = built("cc", "pingpong-static", &all);
    pingpong(&program, &program);
}

/// Links the archive instead of the shared library, like an old Makefile.
#[test]
fn program_links_with_the_static_archive() {
    if skipped("program_links_with_the_static_archive", "cc") {
        return;
    }
    let archive = crate::common::archive();
    let program = crate::common::folder().join("arguments-static");
    run(Command::new("cc")
        .arg("-w")
        .arg("-I")
        .arg(crate::common::include())
        .args(crate::common::sources("arguments"))
        .arg(archive)
        .args(["-lgcc_s", "-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program));
    run(&mut watched(60, false, &program));
}
