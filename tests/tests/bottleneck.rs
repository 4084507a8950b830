//! Programs on two hosts. Their agents carry the bytes over a slow link that loses, reorders, duplicates and corrupts
//! frames. Needs root.

use sovia_tests::{
    Bottleneck, FarNic, Hosts, Key, Launch, Running, Stack, TempDir, accelerated, skipped,
};
use std::time::Duration;

const WATCHDOG: Duration = Duration::from_secs(300);
/// Of a hundred frames, five get lost, ten are overtaken, two arrive twice and two are corrupt.
const BAD: &[&str] = &[
    "--rate",
    "200",
    "--delay",
    "5000",
    "--queue",
    "250000",
    "--lose",
    "5",
    "--reorder",
    "10",
    "--duplicate",
    "2",
    "--corrupt",
    "2",
    "--seed",
    "11",
];
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/apps-py/neighbours.py");
const AGENTS: u16 = 7471;
const PORT: &str = "7541";

/// Hosts with an agent each.
struct Scene {
    way: Bottleneck,
    folder: TempDir,
    _agents: [FarNic; 2],
}

impl Scene {
    fn set(test: &str, options: &[&str]) -> Option<Scene> {
        if skipped(test, &["ip", "ethtool", "python3"]) {
            return None;
        }
        let program = env!("CARGO_BIN_EXE_bottleneck");
        let Some(way) = Bottleneck::new(program, options) else {
            println!("SKIPPED: {test}: no network namespace can be made");
            return None;
        };
        let folder = TempDir::new();
        let keys = ["a", "b"].map(|end| Key::new(&folder, end));
        let agent = |own: usize| {
            let [place, peer] = [own, 1 - own].map(|n| format!("{}:{AGENTS}", Hosts::ADDRESSES[n]));
            let peer = format!("{}@{peer}", keys[1 - own].public);
            let at = (place.as_str(), &keys[own]);
            FarNic::start(&folder, &way.hosts().prefix(own), "bad", at, &peer, &[])
        };
        match (agent(0), agent(1)) {
            (Ok(a), Ok(b)) => Some(Scene { way, folder, _agents: [a, b] }),
            (Err(said), _) | (_, Err(said)) => {
                FarNic::cannot(test, &said);
                None
            }
        }
    }

    fn start(&self, host: usize, words: &[&str]) -> Running {
        let prefix = self.way.hosts().prefix(host);
        let prefix: Vec<&str> = prefix.split_whitespace().collect();
        Launch::new(Stack::Sovia, words)
            .by(&prefix)
            .verbose(true)
            .env("SOVIA_RULES", "nic:name=bad,messages=1")
            .current_dir(self.folder.path())
            .start()
    }
}

/// Sends three megabytes each way; the program compares every byte.
#[test]
fn bytes_are_right_over_a_way_that_does_everything_to_frames() {
    let test = "bytes_are_right_over_a_way_that_does_everything_to_frames";
    let Some(mut scene) = Scene::set(test, BAD) else { return };
    let address = Hosts::ADDRESSES[1];
    let answers = scene.start(1, &["python3", SCRIPT, "answer", address, PORT, "1"]);
    let asks = scene.start(0, &["python3", SCRIPT, "ask", "once", address, PORT]);
    let ends = [answers, asks].map(|end| end.finish(WATCHDOG));
    assert!(ends.iter().all(|end| end.success() && end.stdout.ends_with("ok\n")), "{ends:#?}");
    let carried = ends.iter().all(|end| accelerated(&end.stderr).is_some_and(|ends| ends > 0));
    assert!(carried, "{ends:#?}");
    let said = scene.way.end();
    println!("{said}");
    for what in ["lost by chance", "twice", "late", "corrupt"] {
        let count = said.split(&[',', ';'][..]).find_map(|part| part.trim().strip_suffix(what));
        let count = count.and_then(|count| count.trim().parse::<u64>().ok());
        assert!(count.is_some_and(|count| count > 0), "none {what}: {said}");
    }
}
