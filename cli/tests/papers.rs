//! Checks that the papers' benchmarks run and write the expected files. The tests do not check the figures.

#[path = "common/xml.rs"]
mod xml;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// Options for very short runs with few VIs. Their figures mean nothing.
const TINY: [&str; 7] = ["--quick", "--runs", "1", "--seconds", "0.0002", "--vis", "20"];

/// Scenarios that the report measures itself.
const SCENARIOS: [&str; 11] = [
    "buffers",
    "calls",
    "loops",
    "memory",
    "netpipe",
    "queues",
    "registration",
    "scatter",
    "sovia",
    "strided",
    "throughput",
];

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sovia"));
    command.arg("bench").args(args);
    command
}

fn bench(args: &[&str]) -> Output {
    command(args).output().unwrap()
}

/// Returns true if the benchmarks can run here. Otherwise prints that the test is skipped.
fn can_run(test: &str) -> bool {
    let can = std::thread::available_parallelism().is_ok_and(|count| count.get() > 1);
    if !can {
        crate::common::skipped(test, "there is one processor");
    }
    can
}

/// Returns the folder of the product under test: the folder of the program in `SOVIA_BIN`, or the workspace's release
/// build.
fn product() -> PathBuf {
    match std::env::var_os("SOVIA_BIN").map(PathBuf::from) {
        Some(program) => program.with_file_name(""),
        None => Path::new(env!("CARGO_BIN_EXE_sovia")).with_file_name("../release"),
    }
}

/// Finds a library of the product: the file that `variable` names, or the file `name` beside the product's program. If
/// there is none, the test is skipped.
fn library(test: &str, variable: &str, name: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    let found = std::fs::canonicalize(named.unwrap_or_else(|| product().join(name)));
    if found.is_err() {
        crate::common::skipped(
            test,
            &format!("{name} is not built (make build, or name it in {variable})"),
        );
    }
    found.ok()
}

/// Puts libsovia beside the program, which looks for it there. Returns false if there is none.
fn has_libsovia(test: &str) -> bool {
    let beside = Path::new(env!("CARGO_BIN_EXE_sovia")).with_file_name("libsovia.so");
    let Some(built) = library(test, "SOVIA_LIB", "libsovia.so") else { return false };
    if built != beside {
        // The rename replaces another product's library atomically, because other tests do the same.
        let mine = beside.with_extension(std::process::id().to_string());
        symlink(&built, &mine).unwrap();
        fs::rename(&mine, &beside).unwrap();
    }
    true
}

#[track_caller]
fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[track_caller]
fn check_figure(line: &Value) {
    for key in ["scenario", "series", "way", "wait", "cpus", "end", "x_name", "metric", "unit"] {
        assert!(line[key].is_string(), "{key} in {line}");
    }
    let number = |key: &str| line[key].as_f64().unwrap_or_else(|| panic!("{key} in {line}"));
    assert!(number("min") <= number("median") && number("median") <= number("max"), "{line}");
    assert!(number("x") >= 1.0 && number("perturbation").abs() <= 3.0, "{line}");
    assert_eq!(number("runs"), 1.0, "{line}");
}

#[test]
fn the_report_has_page_pictures_and_data() {
    let test = "the_report_has_page_pictures_and_data";
    if !can_run(test) || !has_libsovia(test) {
        return;
    }
    let Some(preload) = library(test, "SOVIA_PRELOAD", "libsovia_preload.so") else { return };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("report");
    let own = SCENARIOS.join(",");
    let to = ["papers", "--out", out.to_str().unwrap(), "--only", &own];
    let mut command = command(&[&to, &TINY[..]].concat());
    let said = said(&command.env("SOVIA_PRELOAD", preload).output().unwrap());
    assert!(said.contains("Published and ours"), "{said}");

    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let page = read("index.html");
    check_page(&page, &out);
    for paper in ["FGCS 2002", "Euro-Par 2001", "ICS 2001", "CLUSTER 2001", "SC 2001"] {
        assert!(page.contains(&format!(">{paper}</a>")), "{paper} is in the contents");
    }
    // The page reports what was not measured, and only that.
    assert_eq!(page.matches("Not measured.").count(), 5, "two of hosts, FTP, RPC, EMP");
    assert!(page.contains("four are needed") || page.contains("two processors at each end"));

    let mut scenarios = BTreeSet::new();
    let figures = read("figures.jsonl");
    for line in figures.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        check_figure(&line);
        scenarios.insert(line["scenario"].as_str().unwrap().to_owned());
    }
    assert!(scenarios.iter().eq(SCENARIOS.iter()), "{scenarios:?}");

    for line in read("published.jsonl").lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["published"].is_number() && line["place"].is_string(), "{line}");
        assert_ne!(line["ours"].is_number(), line["why_not"].is_string(), "{line}");
    }
    // The figures alone give the same page.
    let again = folder.path().join("again");
    let from = out.join("figures.jsonl");
    let from = ["--from", from.to_str().unwrap()];
    self::said(&bench(&[&["papers", "--out", again.to_str().unwrap()], &from[..]].concat()));
    assert_eq!(fs::read_to_string(again.join("figures.jsonl")).unwrap(), figures);
    // Stored figures are rounded, so quotients of them can differ.
    let verdicts = |folder: &Path| -> Vec<(String, bool)> {
        let text = fs::read_to_string(folder.join("findings.jsonl")).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.map(|it| (it["what"].to_string(), it["holds"].is_boolean())).collect()
    };
    assert!(verdicts(&again) == verdicts(&out), "other findings");
    let machine: Value = serde_json::from_str(&read("machine.json")).unwrap();
    assert!(machine["kernel"].is_string() && machine["processors"].is_number());
}

/// Returns the report of VIs on a NIC in a place. Returns `None` if this machine has no such provider, and prints that
/// the test is skipped.
fn report_on(test: &str, place: &str) -> Option<Vec<Value>> {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("report");
    let own = SCENARIOS.join(",");
    let to = ["papers", "--nic", place, "--out", out.to_str().unwrap(), "--only", &own];
    let output = bench(&[&to, &TINY[..]].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("cannot load libfabric") || errors.contains("libfabric's provider") {
        crate::common::skipped(test, errors.trim());
        return None;
    }
    assert!(said(&output).contains(place));
    let figures = fs::read_to_string(out.join("figures.jsonl")).unwrap();
    // A report from stored figures keeps the place.
    let (again, from) = (folder.path().join("again"), out.join("figures.jsonl"));
    let from = ["--from", from.to_str().unwrap()];
    let said = said(&bench(&[&["papers", "--out", again.to_str().unwrap()], &from[..]].concat()));
    let how = said.lines().next().unwrap();
    assert!(how.contains(from[1]) && how.contains(&format!("NICs in {place}.")), "{how}");
    assert_eq!(fs::read_to_string(again.join("figures.jsonl")).unwrap(), figures);
    Some(figures.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[test]
#[ignore = "takes long: the_report_has_page_pictures_and_data runs it on shared memory"]
fn all_of_the_report_runs_on_a_nic_between_hosts() {
    all_of_it_on("all_of_the_report_runs_on_a_nic_between_hosts", "udp:127.0.0.1:0");
}

#[test]
#[ignore = "takes long: it differs from a_nic_between_hosts in the NIC alone"]
fn all_of_the_report_runs_on_libfabric() {
    all_of_it_on("all_of_the_report_runs_on_libfabric", "ofi:tcp;ofi_rxm@127.0.0.1");
}

fn all_of_it_on(test: &str, place: &str) {
    if !can_run(test) {
        return;
    }
    let Some(lines) = report_on(test, place) else { return };
    lines.iter().for_each(check_figure);
    let mut scenarios = BTreeSet::new();
    for line in &lines {
        let is_kernels = line["way"] == "tcp" || line["way"] == "unix";
        assert_eq!(line["nic"].as_str(), (!is_kernels).then_some(place), "{line}");
        if !is_kernels {
            scenarios.insert(line["scenario"].as_str().unwrap());
        }
    }
    assert!(scenarios.iter().eq(SCENARIOS.iter()), "{place}: {scenarios:?}");
    // The report also has messages that are longer than such a NIC can carry at once.
    let longest = lines.iter().filter(|line| {
        (&line["scenario"], &line["x"], &line["nic"])
            == (&"netpipe".into(), &(8 << 20).into(), &place.into())
    });
    assert!(longest.count() > 0, "{place}");
}

/// Checks that the page contains its pictures, that each is also a file, and that the page loads nothing else.
#[track_caller]
fn check_page(page: &str, folder: &Path) {
    let mut files = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|it| it != "svg") {
            continue;
        }
        let svg = fs::read_to_string(&path).unwrap();
        assert_eq!(xml::fault(&svg), None, "{}", path.display());
        assert!(!svg.contains("NaN") && !svg.contains("inf,"), "{}", path.display());
        let (_, element) = svg.split_once("?>\n").unwrap();
        assert!(page.contains(element), "{} is in the page", path.display());
        files += 1;
    }
    assert_eq!(page.matches("<svg").count(), files);
    assert!(files > 15, "{files}");
    for part in ["Machine:", "Their platform:", "@media print", "width=device-width"] {
        assert!(page.contains(part), "{part}");
    }
    for asks in ["<img", "<script", "<link", "src=", "url("] {
        assert!(!page.contains(asks), "{asks}");
    }
}

#[test]
fn every_loop_tells_its_calls() {
    if !can_run("every_loop_tells_its_calls") {
        return;
    }
    let figures = said(&bench(&[&["loops", "--json"], &TINY[..]].concat()));
    let lines: Vec<Value> =
        figures.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.iter().for_each(check_figure);
    let calls = |way: &str, wait: &str, end: &str| -> Vec<&str> {
        let of = |line: &&Value| line["way"] == way && line["wait"] == wait && line["end"] == end;
        lines.iter().filter(of).map(|line| line["metric"].as_str().unwrap()).collect()
    };
    let expected = ["round_trip", "post_send", "post_recv", "send_done", "recv_done"];
    assert_eq!(calls("send_recv", "poll", "requester"), expected);
    assert_eq!(calls("send_recv", "poll", "responder"), expected[1..]);
    let expected = ["round_trip", "post_send", "send_wait", "flag"];
    assert_eq!(calls("rdma_write", "block", "requester"), expected);
    assert_eq!(calls("rdma_write", "block", "responder"), expected[1..]);
    assert_eq!(calls("rdma_write", "sleep", "responder"), expected[1..]);
}

#[test]
fn netpipe_without_perturbations_has_exact_sizes() {
    if !can_run("netpipe_without_perturbations_has_exact_sizes") {
        return;
    }
    let figures =
        said(&bench(&[&["netpipe", "--json", "--perturbation", "0"], &TINY[..]].concat()));
    for line in figures.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["perturbation"], 0);
        assert!(line["x"].as_u64().unwrap().is_power_of_two());
    }
}

/// Returns true if the command cannot make hosts, and prints that the test is skipped.
fn no_hosts(test: &str, output: &Output) -> bool {
    let said = String::from_utf8_lossy(&output.stderr);
    let lacks = ["cannot make a network namespace", "cannot run the program ip"];
    let why = said.lines().find(|line| lacks.iter().any(|lack| line.contains(lack)));
    if let Some(why) = why {
        crate::common::skipped(test, why);
    }
    why.is_some()
}

#[test]
fn every_way_between_two_hosts_is_measured() {
    let test = "every_way_between_two_hosts_is_measured";
    if !can_run(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("report");
    let to = ["hosts", "--json", "--largest", "4K", "--out", out.to_str().unwrap()];
    let output = bench(&[&to, &TINY[..]].concat());
    if no_hosts(test, &output) {
        return;
    }
    let figures = said(&output);
    let lines: Vec<Value> =
        figures.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.iter().for_each(check_figure);
    let errors = String::from_utf8_lossy(&output.stderr);
    for mtu in [1500, 9000] {
        for port in ["udp", "eth", "xdp", "ofi"] {
            // The command leaves out what this kernel does not have, and reports it.
            if errors.contains(&format!("left out: {port} at MTU {mtu}")) {
                println!("SKIPPED: {test}: {port} at MTU {mtu}");
                continue;
            }
            for wait in ["poll", "block", "sleep"] {
                let of = |line: &&Value| {
                    line["port"] == port
                        && line["mtu"] == mtu
                        && line["wait"] == wait
                        && line["way"] == "send_recv"
                        && line["series"].as_str().unwrap().starts_with("MTU")
                };
                let sizes: BTreeSet<_> =
                    lines.iter().filter(of).map(|line| line["x"].as_u64().unwrap()).collect();
                assert_eq!(sizes.first(), Some(&1), "{port}, {mtu}, {wait}");
                assert_eq!(sizes.last(), Some(&4096), "{port}, {mtu}, {wait}");
            }
        }
        for offloads in [true, false] {
            for wait in ["poll", "sleep"] {
                let of = |line: &&Value| {
                    (&line["way"], &line["wait"], &line["mtu"], &line["offloads"])
                        == (&"tcp".into(), &wait.into(), &mtu.into(), &offloads.into())
                };
                assert!(lines.iter().any(|line| of(&line)), "TCP, {mtu}, {wait}");
            }
        }
    }
    for name in ["NOTIFY", "HANDLER", "SINGLE", "COPY", "HYBRID", "BASE", "DACKS", "COMBINE"] {
        for port in ["udp", "eth"] {
            let ends = format!("SOVIA_{name}, {port}");
            let of = |line: &&Value| line["series"].as_str().unwrap().ends_with(&ends);
            assert!(lines.iter().any(|line| of(&line)), "{ends}");
        }
    }
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    check_page(&read("index.html"), &out);
    let findings = read("findings.jsonl");
    let of_hosts = |line: &&Value| line["what"].as_str().unwrap().contains("MTU 9000");
    let lines: Vec<Value> =
        findings.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().filter(of_hosts).count() > 3);
    for line in lines.iter().filter(of_hosts) {
        assert!(line["ours"].is_number() && line["holds"].is_boolean(), "{line}");
    }
}

#[test]
fn one_port_and_one_mtu_can_be_measured_alone() {
    let test = "one_port_and_one_mtu_can_be_measured_alone";
    if !can_run(test) {
        return;
    }
    let which = ["hosts", "--json", "--ports", "eth", "--mtu", "9000", "--largest", "64"];
    let output = bench(&[&which, &TINY[..]].concat());
    if no_hosts(test, &output) {
        return;
    }
    let figures = said(&output);
    let mut ways = BTreeSet::new();
    for line in figures.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["mtu"], 9000);
        assert!(line["x"].as_u64().unwrap() <= 64);
        ways.insert((line["way"].to_string(), line["port"].to_string()));
    }
    // If IP devices can be made, there are also lanes over VIs in shared memory.
    ways.remove(&("\"lane\"".to_owned(), "null".to_owned()));
    let all = [("\"send_recv\"", "\"eth\""), ("\"tcp\"", "null")];
    assert!(ways.iter().map(|(way, port)| (&way[..], &port[..])).eq(all), "{ways:?}");
}

#[test]
fn people_get_tables() {
    if !can_run("people_get_tables") {
        return;
    }
    let text = said(&bench(&[&["scatter"], &TINY[..]].concat()));
    for part in ["32 segments, polling", "Published and ours", "In brackets: the spread"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn bad_amounts_are_refused() {
    for args in [
        &["papers"][..],
        &["papers", "--out", "/nowhere", "--only", "what"],
        &["papers", "--out", "/nowhere", "--from", "/nowhere/figures.jsonl"],
        &["loops", "--seconds", "0"],
        &["memory", "--vis", "9999"],
        &["netpipe", "--largest", "9M"],
        &["hosts", "--mtu", "1400"],
        &["hosts", "--ports", "tcp"],
        &["loops", "--nic", "eth"],
        &["loops", "--nic", "udp:127.0.0.1:0,"],
        &["loops", "--nic", "eth:no-such-device"],
    ] {
        assert!(!bench(args).status.success(), "{args:?}");
    }
}

#[test]
fn the_checker_of_pictures_finds_faults() {
    let xml = |body: &str| format!("<?xml version=\"1.0\"?>\n{body}\n");
    assert_eq!(xml::fault(&xml("<a b=\"&lt;\"><c/>x &amp; y</a>")), None);
    for bad in ["<a>", "<a></b>", "<a b=c></a>", "<a>&nbsp;</a>", "<a/><b/>", "<a/>x"] {
        assert!(xml::fault(&xml(bad)).is_some(), "{bad}");
    }
}
