//! Checks that `sovia bench` and `sovia demo` run and print the expected lines. The tests do not check the figures.

use std::process::{Command, Stdio};

use crate::common::{Bench, Said, is_there, skipped};
use serde_json::Value;

fn measure(bench: &Bench, args: &[&str]) -> Said {
    measure_once(bench, &[args, &["--runs", "2", "--seconds", "0.02"]].concat())
}

fn measure_once(bench: &Bench, args: &[&str]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sovia"));
    command.arg("bench").args(args);
    // The layer `sovia` also runs with a library that does nothing. The output must report this.
    command.env("SOVIA_PRELOAD", bench.path("preload.so"));
    Said::from(command.output().unwrap())
}

#[track_caller]
fn lines(said: &Said) -> Vec<Value> {
    assert_eq!(said.code(), 0, "{said:?}");
    said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_layer_size_and_metric_gets_a_line() {
    let bench = Bench::new();
    for (args, layers, metrics) in [
        (&["latency", "--size", "1,200,16K"][..], 5, 3),
        (&["latency", "--size", "4", "--wait", "block"], 6, 1),
        (&["latency", "--size", "100K", "--wait", "sleep", "--cpus", "together"], 4, 1),
        (&["bandwidth", "--size", "100,2M", "--wait", "block"], 5, 2),
        (&["bandwidth", "--size", "64K"], 5, 1),
        (&["bandwidth", "--size", "3", "--wait", "sleep", "--cpus", "apart"], 3, 1),
        (&["rate", "--size", "64"], 5, 2),
        (&["connect"], 2, 1),
        (&["load", "--size", "64,4K"], 3, 4),
    ] {
        let lines = lines(&measure(&bench, &[args, &["--json"]].concat()));
        assert_eq!(lines.len(), layers * metrics, "{args:?}: {lines:#?}");
        for line in lines {
            let number =
                |key: &str| line[key].as_f64().unwrap_or_else(|| panic!("{key} in {line}"));
            assert!(
                number("min") <= number("median") && number("median") <= number("max"),
                "{line}"
            );
            assert!(
                number("min") > 0.0 && number("size_bytes") >= 1.0 && number("runs") == 2.0,
                "{line}"
            );
            for key in ["scenario", "layer", "provider", "wait", "cpus", "metric", "unit"] {
                assert!(line[key].is_string(), "{key} in {line}");
            }
            let tail = [&line["p99"], &line["p999"]].map(Value::as_f64);
            match tail {
                [Some(p99), Some(p999)] => assert!(args[0] == "latency" && p99 <= p999, "{line}"),
                _ => assert!(args[0] != "latency" && tail == [None, None], "{line}"),
            }
            let is_ours = line["layer"] == "sovia" || line["layer"] == "via";
            assert_eq!(is_ours, line.get("against").is_some(), "{line}");
        }
    }
}

#[test]
fn any_nic_is_a_layer() {
    let bench = Bench::new();
    let nic = ["--nic", "udp:127.0.0.1:0", "--layers", "via,nic,tcp", "--json"];
    for (args, metrics) in [
        (&["latency", "--size", "1,100K"][..], 2),
        (&["latency", "--size", "4", "--wait", "block"], 1),
        (&["bandwidth", "--size", "100,1M"], 2),
        (&["rate", "--size", "64"], 2),
    ] {
        let lines = lines(&measure(&bench, &[args, &nic].concat()));
        assert_eq!(lines.len(), 3 * metrics, "{args:?}: {lines:#?}");
        for line in lines {
            assert!(line["min"].as_f64().is_some_and(|min| min > 0.0), "{line}");
            let is_it = line["layer"] == "nic";
            assert_eq!(line["nic"].as_str(), is_it.then_some("udp:127.0.0.1:0"), "{line}");
            assert_eq!(is_it, line["provider"] == "nic", "{line}");
        }
    }
    for (args, why) in [
        (&["latency", "--layers", "nic"][..], "needs `--nic PLACE`"),
        (&["latency", "--wait", "sleep", "--nic", "udp:127.0.0.1:0"], "has no layer `nic`"),
        (&["rate", "--nic", "nowhere"], "is not a place for a NIC"),
    ] {
        let said = measure(&bench, args);
        assert!(said.code() != 0 && said.err.contains(why), "{said:?}");
    }
}

#[test]
fn people_get_a_table() {
    let bench = Bench::new();
    let said = measure(&bench, &["latency", "--size", "4", "--layers", "tcp,unix"]);
    assert_eq!(said.code(), 0, "{said:?}");
    assert!(said.out.contains("half a round trip") && said.out.contains("speed / tcp"), "{said:?}");
    assert!(!said.out.contains("ring"), "{said:?}");
}

#[test]
fn layer_that_stayed_on_tcp_is_reported() {
    let bench = Bench::new();
    bench.cc("preload.so", "int nothing;", &["-shared", "-fPIC"]);
    let said = measure(&bench, &["latency", "--size", "4", "--layers", "sovia"]);
    assert!(said.out.contains("stayed on TCP in 2 runs"), "{said:?}");
    let json =
        lines(&measure(&bench, &["latency", "--size", "4", "--layers", "tcp,sovia", "--json"]));
    assert_eq!(json[1]["accelerated_runs"].as_u64(), Some(0));
    assert!(json[0].get("accelerated_runs").is_none());
}

fn compare(bench: &Bench, args: &[&str]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sovia"));
    command.args(["bench", "compare"]).args(args).current_dir(bench.path("."));
    Said::from(command.stdin(std::process::Stdio::null()).output().unwrap())
}

#[test]
fn a_run_is_compared_with_a_stored_one_and_no_difference_fails() {
    let bench = Bench::new();
    let args = ["latency", "--size", "4", "--layers", "tcp,sovia", "--json"];
    let measured = measure(&bench, &args);
    assert_eq!(measured.code(), 0, "{measured:?}");
    let slow = r#"{"scenario":"latency","layer":"sovia","wait":"poll","cpus":"apart","size_bytes":4,"metric":"half_round_trip","against":{"tcp":{"ratio":1e-9,"quarter":1e-9,"three_quarters":1e-9}}}"#;
    bench.file("slow.jsonl", slow, 0o600);
    bench.file("run.jsonl", &measured.out, 0o600);
    for (args, verdict) in [
        (["slow.jsonl", "run.jsonl"], "1 better and 0 worse"),
        (["run.jsonl", "slow.jsonl"], "0 better and 1 worse"),
    ] {
        let said = compare(&bench, &args);
        assert_eq!(said.code(), 0, "{said:?}");
        assert!(said.out.contains("sovia / tcp") && said.out.contains(verdict), "{said:?}");
    }
    assert!(compare(&bench, &["run.jsonl", "run.jsonl"]).out.contains("0 better and 0 worse"));

    for (args, why) in [
        (&["run.jsonl"][..], "cannot compare standard input: the file has no ratios"),
        (&["run.jsonl", "none.jsonl"], "cannot read none.jsonl: No such file"),
        (&["run.jsonl", "preload.so.c"], "line 2 of preload.so.c is not a line of"),
    ] {
        let said = compare(&bench, args);
        assert_eq!(said.code(), 1, "{said:?}");
        assert!(said.err.contains(why), "{said:?}");
    }
}

#[test]
fn the_machine_is_a_line_that_a_stored_run_may_have() {
    let bench = Bench::new();
    let said = Said::from(
        Command::new(env!("CARGO_BIN_EXE_sovia")).args(["bench", "machine"]).output().unwrap(),
    );
    let line = &lines(&said)[0];
    assert_eq!(line["scenario"], "machine");
    let ratio = r#"{"scenario":"latency","layer":"sovia","wait":"poll","cpus":"apart","size_bytes":4,"metric":"half_round_trip","against":{"tcp":{"ratio":1,"quarter":1,"three_quarters":1}}}"#;
    bench.file("run.jsonl", format!("{}{ratio}", said.out), 0o600);
    let compared = compare(&bench, &["run.jsonl", "run.jsonl"]);
    let machine = line["machine"].as_str().unwrap();
    assert_eq!(compared.out.matches(machine).count(), 2, "{compared:?}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let bench = Bench::new();
    for (args, why) in [
        (&["connect", "--layers", "ring"][..], "`connect --wait block` has no layer `ring`"),
        (&["rate", "--wait", "sleep", "--layers", "via"], "`rate --wait sleep` has no layer `via`"),
        (&["latency", "--cpus", "together"], "need a processor each"),
    ] {
        let said = measure(&bench, args);
        assert_eq!(said.code(), 2);
        assert!(said.err.contains(why), "{said:?}");
    }
}

#[test]
fn redis_is_demonstrated() {
    if !is_there("redis-server") || !is_there("redis-benchmark") {
        return skipped("redis_is_demonstrated", "Redis is not installed");
    }
    let bench = Bench::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sovia"));
    command.args(["demo", "--runs", "1", "--seconds", "0.05"]);
    command.env("SOVIA_PRELOAD", bench.path("preload.so")).env("TMPDIR", bench.path("."));
    let said = Said::from(command.output().unwrap());
    assert_eq!(said.code(), 0, "{said:?}");
    for way in ["kernel TCP", "Unix socket", "sovia run"] {
        assert_eq!(said.out.matches(way).count(), 3, "{said:?}");
    }
    let left: Vec<_> = std::fs::read_dir(bench.path("."))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 2, "only the library and its source: {left:?}");
}

#[test]
fn the_help_of_a_measurement_names_the_command_that_was_given() {
    for args in [&["bench", "--help"][..], &["help", "bench"], &["bench", "latency", "--help"]] {
        let said =
            Said::from(Command::new(env!("CARGO_BIN_EXE_sovia")).args(args).output().unwrap());
        assert_eq!(said.code(), 0, "{said:?}");
        assert!(said.out.contains("Usage: sovia bench"), "{said:?}");
    }
}

#[test]
fn a_missing_program_for_other_commands_is_named() {
    let bench = Bench::new();
    let alone = bench.path("sovia");
    std::fs::copy(env!("CARGO_BIN_EXE_sovia"), &alone).unwrap();
    let said = Said::from(Command::new(alone).args(["bench", "latency"]).output().unwrap());
    assert_eq!(said.code(), 1, "{said:?}");
    for part in ["cannot find sovia-tools in", "make build"] {
        assert!(said.err.contains(part), "{said:?}");
    }
}

#[test]
fn each_way_to_start_a_program_gets_a_line() {
    let bench = Bench::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sovia"));
    command.args(["bench", "start", "--runs", "2", "--json"]);
    command.env("SOVIA_PRELOAD", bench.path("preload.so"));
    let lines = lines(&Said::from(command.output().unwrap()));
    let ways: Vec<_> = lines.iter().map(|line| line["way"].as_str().unwrap()).collect();
    assert_eq!(ways, ["by itself", "with the library", "through env", "sovia run"]);
    assert!(lines.iter().all(|line| line["median_ms"].as_f64().unwrap() > 0.0), "{lines:?}");
    let more = |way: usize| lines[way]["more_address_space_bytes"].as_i64().unwrap();
    // The stand-in for the library is small, and both processes map it.
    assert!(more(0) == 0 && more(1) > 0 && more(3) > 0, "{lines:?}");
}

/// Checks for a line for each size over TCP and Sovia, and over libsovia-rpc if it has been built. The output must
/// report a layer that was not accelerated.
#[test]
fn calls_over_rpc_get_a_line_each() {
    if !is_there_a_library("libtirpc.so.3") {
        println!("SKIPPED: calls_over_rpc_get_a_line_each: not installed: libtirpc3");
        return;
    }
    let bench = Bench::new();
    bench.cc("preload.so", "int nothing;", &["-shared", "-fPIC"]);
    let layers: &[_] = match is_beside_sovia("libsovia-rpc.so.1") {
        true => &["tcp", "sovia", "via"],
        false => &["tcp", "sovia"],
    };
    let lines = lines(&measure(&bench, &["rpc", "--size", "0,100,4K", "--json"]));
    let seen: Vec<_> = lines.iter().map(|line| line["layer"].as_str().unwrap()).collect();
    assert_eq!(seen, layers.repeat(3), "{lines:#?}");
    for line in &lines {
        let number = |key: &str| line[key].as_f64().unwrap_or_else(|| panic!("{key} in {line}"));
        assert!(0.0 < number("min_us") && number("min_us") <= number("median_us"), "{line}");
        assert!(number("median_us") <= number("max_us") && number("runs") == 2.0, "{line}");
    }
    assert!(lines[0].get("accelerated_runs").is_none(), "{lines:#?}");
    assert_eq!(lines[1]["accelerated_runs"].as_u64(), Some(0));
    let said = measure(&bench, &["rpc", "--size", "4"]);
    assert!(said.out.contains("sovia stayed on TCP in 2 of 2 runs"), "{said:?}");
    let said = measure(&bench, &["rpc", "--size", "1M"]);
    assert!(said.code() == 2 && said.err.contains("at most 65536 bytes, not 1048576"), "{said:?}");
}

/// Checks for a line for each carrier and each point of the paper's figures. The tables must contain the published
/// results.
#[test]
fn emp_is_measured_as_its_paper_did() {
    let bench = Bench::new();
    let measure = |args: &[&str]| {
        let few = ["emp", "--runs", "1", "--repetitions", "20", "--port", "udp"];
        measure_once(&bench, &[&few, args].concat())
    };
    let said = measure(&["--json", "--way", "tcp,emp-calls,emp-thread"]);
    if said.code() != 0 && said.err.contains("network namespace") {
        return println!("SKIPPED: emp_is_measured_as_its_paper_did: {}", said.err.trim());
    }
    let lines = lines(&said);
    for way in ["tcp", "emp-calls", "emp-thread"] {
        for (scenario, points) in [("emp latency", 32), ("emp bandwidth", 32), ("emp batches", 9)] {
            let of = |line: &&Value| line["way"] == way && line["scenario"] == scenario;
            assert_eq!(lines.iter().filter(of).count(), points, "{way} {scenario}");
        }
    }
    for line in &lines {
        let value = if line["value"].is_null() { &line["mbit"] } else { &line["value"] };
        assert!(value.as_f64().is_some_and(|value| value > 0.0), "{line}");
    }
    let said = measure(&["--way", "emp-calls"]);
    assert_eq!(said.code(), 0, "{said:?}");
    for word in ["Figure 5", "Table 2", "Figure 6", "EMP, published", "processors"] {
        assert!(said.out.contains(word), "{word}: {said:?}");
    }
}

/// Returns true if a file is beside the program under test. Some builds make more programs there.
fn is_beside_sovia(name: &str) -> bool {
    std::path::Path::new(env!("CARGO_BIN_EXE_sovia")).with_file_name(name).exists()
}

/// Checks for a line for each layer: TCP, Sovia, and programs with SOCK_VIA if they have been built.
#[test]
fn files_by_ftp_get_a_line_each() {
    // `scripts/setup` has unpacked the programs beside the build.
    let own = std::env::current_exe().expect("a running program has a path");
    let programs = own.ancestors().nth(3).expect("a build is three folders deep").join("unpacked");
    // SAFETY: geteuid has no preconditions.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root || !programs.join("inetutils-ftpd").exists() {
        println!(
            "SKIPPED: files_by_ftp_get_a_line_each: not root, or no ftpd in {}",
            programs.display()
        );
        return;
    }
    let bench = Bench::new();
    bench.cc("preload.so", "int nothing;", &["-shared", "-fPIC"]);
    let layers: &[_] = match programs.join("papers-ftp").exists() {
        true => &["tcp", "sovia", "sock-via"],
        false => &["tcp", "sovia"],
    };
    let programs = programs.display().to_string();
    let asked = ["ftp", "--size", "100K", "--runs", "1", "--client", "inetutils-ftp", "--programs"];
    let lines = lines(&measure_once(&bench, &[&asked[..], &[&programs, "--json"]].concat()));
    let text = |line: &Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
    let ways: Vec<_> =
        lines.iter().map(|line| text(line, "way") + " " + &text(line, "layer")).collect();
    let each = |way| layers.iter().map(move |layer| format!("{way} {layer}"));
    assert_eq!(ways, each("get").chain(each("put")).collect::<Vec<_>>());
    for line in &lines {
        let number = |key: &str| line[key].as_f64().unwrap_or_else(|| panic!("{key} in {line}"));
        assert!(
            0.0 < number("min_mbit_s") && number("min_mbit_s") <= number("median_mbit_s"),
            "{line}"
        );
        assert!(number("copy_mbit_s") > 0.0, "{line}");
        // Unlike libsovia, the library here is an empty one.
        assert!(text(line, "layer") == "sock-via" || number("accelerated_runs") == 0.0, "{line}");
    }
    let said = measure_once(&bench, &["ftp", "--programs", "/nowhere"]);
    assert!(said.code() == 1 && said.err.contains("/nowhere/inetutils-ftpd"), "{said:?}");
}

fn is_there_a_library(name: &str) -> bool {
    ["/usr/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib64"]
        .iter()
        .any(|folder| std::path::Path::new(folder).join(name).exists())
}

/// Returns the output of a command whose standard output and error are a terminal.
fn on_a_terminal(words: &str) -> Option<String> {
    let sovia = env!("CARGO_BIN_EXE_sovia");
    let mut command = Command::new("script");
    command.args(["-qec", &format!("{sovia} {words}"), "/dev/null"]).stdin(Stdio::null());
    let output = command.output().ok()?;
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn long_measurement_shows_progress_on_a_terminal() {
    let words = "bench latency --layers tcp,unix --size 64 --wait block --runs 2 --seconds 0.01";
    let Some(shown) = on_a_terminal(words) else {
        skipped("long_measurement_shows_progress_on_a_terminal", "there is no program script");
        return;
    };
    for part in ["latency over tcp, 64 bytes", "latency over unix, 64 bytes", "/4"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    // A pipe gets only the results.
    let words: Vec<&str> = words.split(' ').collect();
    let output = Command::new(env!("CARGO_BIN_EXE_sovia")).args(words).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert!(!String::from_utf8_lossy(&output.stdout).contains("latency over"), "{output:?}");
}
