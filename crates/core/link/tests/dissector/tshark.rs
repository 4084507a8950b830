//! Runs tshark with the dissector on captures.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

/// Values of a packet's fields, by name.
pub(crate) type Fields = BTreeMap<&'static str, Vec<String>>;

/// All fields of the dissector that the tests check.
pub(crate) const FIELDS: &[&str] = &[
    "sovia.version",
    "sovia.kind",
    "sovia.flags",
    "sovia.length",
    "sovia.to",
    "sovia.from",
    "sovia.checksum.status",
    "sovia.padding",
    "sovia.malformed",
    "sovia.number",
    "sovia.transmission",
    "sovia.ack",
    "sovia.item",
    "sovia.immediate",
    "sovia.total",
    "sovia.start",
    "sovia.address",
    "sovia.handle",
    "sovia.read",
    "sovia.bytes",
    "sovia.read.length",
    "sovia.close",
    "sovia.close.item",
    "sovia.report.next",
    "sovia.report.room",
    "sovia.report.ranges",
    "sovia.report.seen.number",
    "sovia.report.seen.transmission",
    "sovia.report.seen.delay",
    "sovia.report.marked",
    "sovia.report.range.missing",
    "sovia.report.range.there",
    "sovia.message",
    "sovia.nonce",
    "sovia.probe.padding",
    "sovia.terms.level",
    "sovia.terms.flags",
    "sovia.terms.largest",
    "sovia.local.host",
    "sovia.local.discriminator",
    "sovia.remote.host",
    "sovia.remote.discriminator",
    "sovia.verdict",
    "sovia.connected",
    "_ws.expert.message",
];

/// Returns true if tshark is installed. Prints a message if not.
pub(crate) fn is_there(test: &str) -> bool {
    let is_there = Command::new("tshark").arg("--version").output().is_ok();
    if !is_there {
        println!("SKIPPED: {test}: there is no tshark");
    }
    is_there
}

/// Runs tshark on a capture. Returns the printed lines.
fn run(test: &str, capture: &[u8], arguments: &[&str]) -> Vec<String> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("dissector-{test}"));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("frames.pcap");
    std::fs::write(&file, capture).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tools/wireshark/sovia.lua");
    let output = Command::new("tshark")
        // Keep the user's preferences out.
        .env("HOME", &folder)
        .env_remove("XDG_CONFIG_HOME")
        .args(["-X", &format!("lua_script:{script}"), "-n", "-r"])
        .arg(&file)
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains(".lua"), "tshark: {said}");
    std::fs::remove_dir_all(&folder).unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Returns the fields of each packet of a capture.
pub(crate) fn fields(test: &str, capture: &[u8], arguments: &[&str]) -> Vec<Fields> {
    let form = ["-T", "fields", "-E", "separator=/t", "-E", "occurrence=a", "-E", "aggregator=;"];
    let names = FIELDS.iter().flat_map(|name| ["-e", name]);
    let arguments: Vec<&str> =
        form.into_iter().chain(names).chain(arguments.iter().copied()).collect();
    let take_apart = |line: &String| {
        let values = FIELDS.iter().zip(line.split('\t'));
        let present = values.filter(|(_, value)| !value.is_empty());
        present
            .map(|(name, value)| (*name, value.split(';').map(str::to_owned).collect()))
            .collect()
    };
    run(test, capture, &arguments).iter().map(take_apart).collect()
}

/// Returns the information column of each packet.
pub(crate) fn infos(test: &str, capture: &[u8]) -> Vec<String> {
    let lines = run(test, capture, &["-o", r#"gui.column.format:"Info","%i""#]);
    lines.iter().map(|line| line.trim().to_owned()).collect()
}
