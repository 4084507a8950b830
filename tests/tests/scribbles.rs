//! A process writes nonsense into a segment while it is in use. Connections on the segment may end,
//! or deliver the written bytes. Nothing hangs, both processes live, and so do all connections
//! outside the segment.

use sovia_tests::{Pairing, Scenario, TempDir};
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread::{self, sleep};
use std::time::Duration;

const KB: u64 = 1 << 10;
const MB: u64 = 1 << 20;
/// Directions of a VI, each with a pool and an overflow buffer.
const BULK: u64 = 32 * MB;
const POOL: u64 = 2 * MB;
const LANE: u64 = POOL + 8 * MB;
const SEGMENT: u64 = BULK + 2048 * LANE;

/// Ranges of a segment, by purpose, for the VIs that a few connections use.
type Part = Vec<(u64, u64)>;

fn waiters_and_names() -> Part {
    vec![(0, 10 * KB)]
}

fn requests() -> Part {
    vec![(64 * KB, 2 * KB)]
}

fn control_blocks() -> Part {
    vec![(256 * KB, 16 * KB)]
}

fn rings() -> Part {
    vec![(4 * MB, 128 * KB)]
}

fn pools_and_areas() -> Part {
    (0..16).map(|lane| BULK + lane * LANE).flat_map(|at| [(at, MB), (at + POOL, MB)]).collect()
}

fn everything() -> Part {
    [waiters_and_names(), requests(), control_blocks(), rings(), pools_and_areas()].concat()
}

/// Pseudorandom numbers from a seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Memory of a process, and the addresses of its segments.
struct Prey {
    memory: File,
    segments: Vec<u64>,
}

impl Prey {
    fn new(process: u32) -> Result<Prey, std::io::Error> {
        let folder = Path::new("/proc").join(process.to_string());
        let memory = OpenOptions::new().read(true).write(true).open(folder.join("mem"))?;
        let maps = fs::read_to_string(folder.join("maps"))?;
        let start = |line: &str| {
            let (start, rest) = line.split_once('-')?;
            let (end, rest) = rest.split_once(' ')?;
            let start = u64::from_str_radix(start, 16).ok()?;
            let size = u64::from_str_radix(end, 16).ok()? - start;
            (rest.contains("/memfd:sovia") && size == SEGMENT).then_some(start)
        };
        Ok(Prey { memory, segments: maps.lines().filter_map(start).collect() })
    }

    /// Writes a random value to a random place. The process may have ended.
    fn scribble(&self, part: &Part, numbers: &mut Numbers) {
        let (from, len) = part[numbers.below(part.len() as u64) as usize];
        let word = 8 * numbers.below(len / 8);
        for segment in &self.segments {
            let at = segment + from + word;
            let mut bytes = [0; 8];
            if self.memory.read_exact_at(&mut bytes, at).is_err() {
                return;
            }
            let old = u64::from_ne_bytes(bytes);
            let new = match numbers.below(7) {
                0 => numbers.next(),
                1 => 0,
                2 => u64::MAX,
                3 => old.wrapping_add(1),
                4 => old.wrapping_sub(1),
                5 => old ^ 1 << numbers.below(64),
                // One half comes from another place.
                _ => old & 0xffff_ffff | numbers.next() << 32,
            };
            let _ = self.memory.write_all_at(&new.to_ne_bytes(), at);
        }
    }
}

/// Waits for a note of the processes under test, and reads it.
fn note(folder: &Path, name: &str) -> Option<u32> {
    for _ in 0..60_000 {
        if let Ok(text) = fs::read_to_string(folder.join(name)) {
            return text.trim().parse().ok();
        }
        sleep(Duration::from_millis(1));
    }
    None
}

/// Scribbles on a part of the segment for long enough. Returns false if that is not allowed here.
fn scribble(notes: &Path, part: &Part, seed: u64) -> bool {
    let victim = note(notes, "victim").zip(note(notes, "warm"));
    let prey = victim.map(|(process, _)| Prey::new(process));
    let allowed = match prey {
        Some(Ok(prey)) => {
            let mut numbers = Numbers(seed);
            for _ in 0..200 {
                for _ in 0..20 {
                    prey.scribble(part, &mut numbers);
                }
                sleep(Duration::from_millis(1));
            }
            true
        }
        Some(Err(e)) if e.kind() == ErrorKind::PermissionDenied => false,
        _ => true,
    };
    fs::write(notes.join("done"), "").expect("a note");
    allowed
}

fn only_its_own_connections_suffer(part: fn() -> Part) {
    only_those_suffer(part, |scenario| scenario);
}

fn only_those_suffer(part: fn() -> Part, adapt: fn(Scenario) -> Scenario) {
    for seed in [1, 2, 3] {
        let notes = TempDir::new();
        let (observation, allowed) = thread::scope(|scope| {
            let scribbler = scope.spawn(|| scribble(notes.path(), &part(), 0x9e37_79b9 * seed));
            let scenario = adapt(Scenario::c("crowd", "victims_and_bystanders"));
            let scenario = scenario.env("SOVIA_TESTS_NOTES", notes.path().display());
            (scenario.observe(Pairing::SOVIA), scribbler.join().expect("the scribbler lives"))
        });
        let (server, client) = (&observation.ends[0].1, &observation.ends[1].1);
        let all = format!("seed {seed}\nserver: {server:#?}\nclient: {client:#?}");
        assert_eq!(server.transcript(), "served to the end\nend\nstatus 0\n", "{all}");
        let expected = "victim: exit 0\nbystander: exit 0\nlater ones work\nend\nstatus 0\n";
        assert_eq!(client.transcript(), expected, "{all}");
        if !allowed {
            let thread = std::thread::current();
            let test = thread.name().unwrap_or("scribbles");
            println!("SKIPPED: {test}: the memory of another process is not writable");
            return;
        }
    }
}

#[test]
fn on_the_header_with_its_waiters() {
    only_its_own_connections_suffer(waiters_and_names);
}

#[test]
fn on_the_connection_requests() {
    only_its_own_connections_suffer(requests);
}

#[test]
fn on_the_control_blocks() {
    only_its_own_connections_suffer(control_blocks);
}

#[test]
fn on_the_rings() {
    only_its_own_connections_suffer(rings);
}

#[test]
fn on_the_messages_themselves() {
    only_its_own_connections_suffer(pools_and_areas);
}

#[test]
fn on_everything() {
    only_its_own_connections_suffer(everything);
}

/// A peer that may not trace the process, and shares memory with it by a rule.
#[test]
fn by_a_process_of_another_user() {
    // SAFETY: reads nothing but this process's user id.
    if unsafe { libc::geteuid() } != 0
        || sovia_tests::skipped("by_a_process_of_another_user", &["setpriv"])
    {
        println!("SKIPPED: by_a_process_of_another_user: only root can play it");
        return;
    }
    for part in [waiters_and_names, requests, control_blocks, rings, everything] {
        only_those_suffer(part, Scenario::strangers);
    }
}
