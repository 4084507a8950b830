//! Generates the walk of a seed.

use super::script::{Script, Step, Walker};
use std::str::FromStr;

/// Pseudorandom numbers from a seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (((x ^ (x >> 31)) as u128 * limit as u128) >> 64) as usize
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// Sizes around those at which messages take another path.
const SIZES: [usize; 12] = [1, 7, 8, 48, 49, 100, 112, 113, 1000, 3000, 9000, 20000];
/// More bytes than can be unread.
const ALL: usize = 300_000;

/// Kinds of walks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Sends, receives, peeks, half-closes, closes.
    Calls,
    /// Also forked children and deaths.
    Processes,
    /// Also children that execute another program.
    Programs,
    /// Epoll instances, in every mode, and threads that sleep in a call.
    Waits,
    /// Receives and sends of every form, and a connection under several descriptors.
    Forms,
    /// Connections that are passed to other processes.
    Gifts,
    /// Several connections in the same epoll instances.
    Several,
}

impl Kind {
    /// All kinds, by name.
    pub const ALL: [(&str, Self); 7] = [
        ("calls", Self::Calls),
        ("processes", Self::Processes),
        ("programs", Self::Programs),
        ("waits", Self::Waits),
        ("forms", Self::Forms),
        ("gifts", Self::Gifts),
        ("several", Self::Several),
    ];
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kind = Self::ALL.into_iter().find(|(name, _)| *name == text);
        let names = Self::ALL.map(|(name, _)| name).join(", ");
        kind.map(|(_, kind)| kind).ok_or_else(|| format!("{text}: a kind is one of {names}"))
    }
}

/// Round trips after which a connection is on its VI.
pub(super) const MOVED: usize = 14;

/// Returns the walk of a kind for a seed.
pub fn of_seed(seed: u64, kind: Kind) -> Script {
    let mut dice = Dice(seed);
    let mut warmup = dice.below(13);
    if kind == Kind::Waits && seed % 2 == 1 {
        // An edge may be reported once more while the connection moves. Nothing after it is compared.
        warmup += MOVED;
    }
    let steps = match kind {
        Kind::Waits => waits(&mut dice),
        Kind::Forms => forms(&mut dice),
        Kind::Gifts => gifts(&mut dice),
        Kind::Several => several(&mut dice),
        _ => processes(&mut dice, kind),
    };
    Script { warmup, steps }
}

fn processes(dice: &mut Dice, kind: Kind) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut take =
        |walker: usize, action: String| steps.push(Step { walker: Walker(walker), action });
    for end in 0..2 {
        if dice.below(3) == 0 {
            take(end, "add 0 both end".into());
        }
    }
    // Living walkers with the connection; and for each end, whether it has forked.
    let mut holds = [true, true, false, false];
    let mut has_forked = [false, false];
    for _ in 0..8 + dice.below(30) {
        let able: Vec<usize> = (0..Walker::COUNT).filter(|&walker| holds[walker]).collect();
        if able.is_empty() {
            break;
        }
        let walker = dice.one(&able);
        let size = dice.one(&SIZES);
        let room = if dice.below(3) == 0 { size } else { ALL };
        match dice.below(100) {
            0..30 => take(walker, format!("write {size}")),
            30..46 => take(walker, format!("read {room}")),
            46..50 => take(walker, format!("peek {room}")),
            50..56 => take(walker, format!("await {room}")),
            56..64 => take(walker, "poll".into()),
            64..68 => take(walker, "events 0 4".into()),
            68..71 => take(walker, "error".into()),
            71..74 => take(walker, "unread".into()),
            74..78 => take(walker, format!("shutdown {}", dice.one(&[1, 1, 0, 2]))),
            78 => take(walker, "linger".into()),
            79..82 => {
                take(walker, "close".into());
                holds[walker] = false;
            }
            82..84 => take(walker, "dup".into()),
            84..87 => take(walker, format!("interrupted {}", 300 + dice.below(3000))),
            87..90 if kind != Kind::Calls => {
                take(walker, dice.one(&["kill", "exit"]).into());
                holds[walker] = false;
            }
            90..95 if kind != Kind::Calls && walker < 2 && !has_forked[walker] => {
                take(walker, "fork".into());
                has_forked[walker] = true;
                holds[walker + 2] = true;
            }
            95..100 if kind == Kind::Programs => {
                let way = dice.one(&["exec", "vfork", "spawn", "system"]);
                let what = dice.one(&["nothing", "write", "poll"]);
                let stack = dice.one(&["here", "kernel"]);
                take(walker, format!("child {way} {stack} {what} {}", SIZES[dice.below(8)]));
            }
            _ => {}
        }
    }
    steps
}

fn waits(dice: &mut Dice) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut is_there = [true, true];
    // Ends that have filled their path: then only `drain` receives the same from both stacks.
    let mut fills = [false, false];
    // Bytes keep arriving on a filled path, each time with an edge.
    let has_edges = [dice.below(2) == 0, dice.below(2) == 0];
    // A thread that sleeps in a receive takes bytes that another call would get.
    let mut receives = [false, false];
    let mut has_second = [false, false];
    let mut sleepers = [0, 0];
    for _ in 0..12 + dice.below(40) {
        let end = dice.below(2);
        if !is_there[end] {
            continue;
        }
        let size = dice.one(&SIZES);
        let room = if dice.below(3) == 0 { size } else { ALL };
        let set = dice.below(3) / 2;
        let modes: &[&str] = match has_edges[end] {
            true => &["edge", "edge", "edge once", "level", "once"],
            false => &["level", "level", "once", "exclusive"],
        };
        let mode = dice.one(modes);
        // An edge of an entry that does not ask for bytes may come with bytes (docs/reference/functions.md).
        let events: &[&str] = match mode.contains("edge") {
            true => &["in", "both", "both end", "in end"],
            false => &["in", "out", "both", "both end", "in end", "end", "none"],
        };
        let wish = format!("{mode} {}", dice.one(events));
        let may_receive = !receives[end];
        let action = match dice.below(100) {
            0..16 if !fills[end] => format!("write {size}"),
            16..28 if may_receive && !fills[1 - end] => format!("read {room}"),
            28..31 if may_receive => {
                fills[1 - end] = false;
                "drain".into()
            }
            31..44 => format!("events {set} 4"),
            44..47 => format!("events {set} 1"),
            47..57 => format!("add {set} {wish}"),
            57..64 => format!("modify {set} {wish}"),
            64..67 => format!("delete {set}"),
            67 if sleepers[end] == 0 => format!("close-set {set}"),
            68..70 => {
                has_second[end] = true;
                "second".into()
            }
            70..73 if has_second[end] => "other".into(),
            73..75 if has_second[end] && sleepers[end] == 0 => {
                has_second[end] = false;
                "close".into()
            }
            75..83 if sleepers[end] < 2 && !receives[end] => {
                sleepers[end] += 1;
                let call = dice.one(&[
                    "events 0",
                    "events 0",
                    "events 1",
                    "readable 0",
                    "writable 0",
                    "ended 0",
                ]);
                format!("sleep {call}")
            }
            // Only one: of two sleepers, either may get the bytes.
            83..85 if may_receive && !fills[1 - end] && sleepers[end] == 0 => {
                sleepers[end] += 1;
                receives[end] = true;
                format!("sleep receive {room}")
            }
            85..91 => "woken".into(),
            91 | 92 if !fills[end] && !receives[1 - end] && !has_edges[1 - end] => {
                fills[end] = true;
                "fill".into()
            }
            93 if !fills[end] && !receives[1 - end] && !has_edges[1 - end] => {
                (fills[end], sleepers[end]) = (true, sleepers[end] + 1);
                "sleep send 20000000".into()
            }
            94 if !fills[end] && !fills[1 - end] => format!("shutdown {}", dice.one(&[1, 1, 0, 2])),
            95 => "error".into(),
            96..98 => "poll".into(),
            98 if !fills[end] => {
                is_there[end] = false;
                dice.one(&["kill", "exit"]).into()
            }
            _ => continue,
        };
        steps.push(Step { walker: Walker(end), action });
    }
    steps.extend(last_looks());
    steps
}

/// Shows the final state of each end's threads and epoll instances.
fn last_looks() -> impl Iterator<Item = Step> {
    let looks = ["woken", "events 0 4", "events 1 4"];
    let of = move |end| looks.map(|look| Step { walker: Walker(end), action: look.into() });
    (0..2).flat_map(of)
}

fn gifts(dice: &mut Dice) -> Vec<Step> {
    let mut steps = Vec::new();
    // Living walkers, their descriptors of a connection, and descriptors from other walkers.
    let mut is_there = [true, true, false, false];
    let mut numbers = [1, 1, 0, 0];
    let mut given = [0; Walker::COUNT];
    let mut has_forked = [false, false];
    for _ in 0..12 + dice.below(30) {
        let walker = dice.below(Walker::COUNT);
        if !is_there[walker] {
            continue;
        }
        let size = dice.one(&SIZES);
        let room = if dice.below(3) == 0 { size } else { ALL };
        let has = numbers[walker] > 0;
        let action = match dice.below(100) {
            0..22 if has => format!("write {size}"),
            22..36 if has => format!("read {room}"),
            36..42 if has => format!("await {room}"),
            42..47 if has => "poll".into(),
            47..50 if has => "unread".into(),
            50..62 if has => {
                let to = dice.below(Walker::COUNT);
                given[to] += 1;
                format!("give {}", Walker(to))
            }
            62..76 if given[walker] > 0 => {
                given[walker] -= 1;
                numbers[walker] += 1;
                "take".into()
            }
            76..84 if has => {
                numbers[walker] -= 1;
                "close".into()
            }
            84..87 if has => "other".into(),
            87..89 if has => format!("shutdown {}", dice.one(&[1, 1, 0, 2])),
            89..91 => {
                is_there[walker] = false;
                dice.one(&["kill", "exit"]).into()
            }
            91..97 if walker < 2 && !has_forked[walker] => {
                has_forked[walker] = true;
                (is_there[walker + 2], numbers[walker + 2]) = (true, numbers[walker]);
                "fork".into()
            }
            97..99 if has => format!("add 0 {} both end", dice.one(&["level", "edge", "once"])),
            99 => "events 0 4".into(),
            _ => continue,
        };
        steps.push(Step { walker: Walker(walker), action });
    }
    steps
}

fn several(dice: &mut Dice) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut connections = [1, 1];
    let mut sleepers = [0, 0];
    let open = |steps: &mut Vec<Step>, connections: &mut [i32; 2], rounds: usize| {
        connections.iter_mut().for_each(|count| *count += 1);
        steps.push(Step { walker: Walker(1), action: format!("open {rounds}") });
    };
    for _ in 0..1 + dice.below(3) {
        open(&mut steps, &mut connections, dice.below(25));
    }
    for _ in 0..20 + dice.below(40) {
        let end = dice.below(2);
        let size = dice.one(&SIZES);
        let room = if dice.below(3) == 0 { size } else { ALL };
        let set = dice.below(3) / 2;
        let mode = dice.one(&["level", "level", "edge", "once"]);
        let events = dice.one(&["in", "both", "in end"]);
        let action = match dice.below(100) {
            0..18 => format!("write {size}"),
            18..32 => format!("read {room}"),
            32..50 => format!("events {set} {}", dice.one(&[1, 2, 4])),
            50..64 => format!("add {set} {mode} {events}"),
            64..69 => format!("modify {set} {mode} {events}"),
            69..71 => format!("delete {set}"),
            71..85 => "other".into(),
            85..88 => "poll".into(),
            88..92 if sleepers[end] < 2 => {
                sleepers[end] += 1;
                format!("sleep events {set}")
            }
            92..96 => "woken".into(),
            96 if connections[end] > 1 => {
                connections[end] -= 1;
                "close".into()
            }
            97 => format!("shutdown {}", dice.one(&[1, 1, 0, 2])),
            98..100 if connections[0].max(connections[1]) < 6 => {
                open(&mut steps, &mut connections, dice.below(25));
                continue;
            }
            _ => continue,
        };
        steps.push(Step { walker: Walker(end), action });
    }
    steps.extend(last_looks());
    steps
}

fn forms(dice: &mut Dice) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut numbers = [1, 1];
    for _ in 0..10 + dice.below(40) {
        let end = dice.below(2);
        let size = dice.one(&SIZES);
        let room = if dice.below(2) == 0 { size } else { ALL };
        let action = match dice.below(100) {
            0..10 => format!("write {size}"),
            10..20 => format!("gather {size}"),
            20..26 => format!("splice-out {size}"),
            26..34 => format!("read {room}"),
            34..42 => format!("scatter {room}"),
            42..48 => format!("read-all {size}"),
            48..53 => format!("discard {size}"),
            53..59 => format!("splice-in {size}"),
            59..65 => format!("peek {room}"),
            65..69 => "poll".into(),
            69..72 => "unread".into(),
            72..75 => format!("least {}", dice.one(&[1, 1, 8, 100, 3000])),
            75..79 if numbers[end] > 0 => "dup".into(),
            79..83 if numbers[end] > 0 => {
                numbers[end] += 1;
                "second".into()
            }
            83..87 if numbers[end] > 0 => "other".into(),
            87..91 if numbers[end] > 1 || numbers[end] == 1 && dice.below(4) == 0 => {
                numbers[end] -= 1;
                "close".into()
            }
            91..94 => format!("shutdown {}", dice.one(&[1, 1, 0, 2])),
            94..96 => "error".into(),
            96..98 => format!("interrupted {}", 300 + dice.below(3000)),
            98 => "linger".into(),
            _ => continue,
        };
        steps.push(Step { walker: Walker(end), action });
    }
    steps
}
