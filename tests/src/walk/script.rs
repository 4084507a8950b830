//! What a walk consists of, as text that a developer can write and as a seed that makes it.

use std::fmt;
use std::str::FromStr;

/// A process that takes steps: `A` accepts, `B` connects, `A2` and `B2` are their forked children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walker(pub usize);

impl Walker {
    /// How many there may be.
    pub const COUNT: usize = 4;

    /// Its child by `fork`.
    pub fn child(self) -> Self {
        Self(self.0 + 2)
    }

    /// Whether it is a forked child.
    pub fn is_child(self) -> bool {
        self.0 >= 2
    }
}

const NAMES: [&str; Walker::COUNT] = ["A", "B", "A2", "B2"];

impl fmt::Display for Walker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAMES[self.0])
    }
}

impl FromStr for Walker {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let at = NAMES.iter().position(|name| *name == text);
        at.map(Self).ok_or_else(|| format!("{text}: a step begins with A, B, A2 or B2"))
    }
}

/// One step: the walker that takes it, and what it does, in the words that [`super::end`] understands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Takes it.
    pub walker: Walker,
    /// A word and its numbers.
    pub action: String,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.walker, self.action)
    }
}

/// A walk: round trips that warm the connection up, then steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Round trips of 8 bytes before the steps.
    pub warmup: usize,
    /// In this order, one at a time.
    pub steps: Vec<Step>,
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.warmup)?;
        self.steps.iter().try_for_each(|step| write!(f, "; {step}"))
    }
}

impl FromStr for Script {
    type Err = String;

    /// `10; A write 5; B read 100`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(';').map(str::trim);
        let first = parts.next().unwrap_or_default();
        let warmup = first.parse().map_err(|_| format!("{first}: a walk begins with a number"))?;
        let step = |part: &str| {
            let (walker, action) =
                part.split_once(' ').ok_or_else(|| format!("{part}: no step"))?;
            Ok(Step { walker: walker.parse()?, action: action.trim().into() })
        };
        let steps = parts.filter(|part| !part.is_empty()).map(step);
        Ok(Self { warmup, steps: steps.collect::<Result<_, String>>()? })
    }
}

/// Numbers that a seed decides (splitmix64).
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

/// Around the sizes at which the way of a message changes.
const SIZES: [usize; 12] = [1, 7, 8, 48, 49, 100, 112, 113, 1000, 3000, 9000, 20000];
/// More than can be unread.
const ALL: usize = 300_000;

/// What a walk may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Sends, receives, looks, halves that are shut, closes.
    Calls,
    /// Also forked children, and deaths.
    Processes,
    /// Also children that become another program.
    Programs,
}

/// The walk of that kind that a seed stands for.
pub fn of_seed(seed: u64, kind: Kind) -> Script {
    let mut dice = Dice(seed);
    let warmup = dice.below(13);
    let mut steps = Vec::new();
    let mut take =
        |walker: usize, action: String| steps.push(Step { walker: Walker(walker), action });
    for end in 0..2 {
        if dice.below(3) == 0 {
            take(end, "watch".into());
        }
    }
    // The walkers that live and have the connection; whether an end has forked.
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
            64..68 => take(walker, "events".into()),
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
    Script { warmup, steps }
}

#[cfg(test)]
mod tests {
    use super::{Kind, Script, of_seed};

    #[test]
    fn a_walk_survives_being_written_and_read() {
        for seed in 0..100 {
            let walk = of_seed(seed, Kind::Programs);
            assert_eq!(walk.to_string().parse::<Script>(), Ok(walk));
        }
    }

    #[test]
    fn a_bad_walk_says_what_is_wrong() {
        let error = |text: &str| text.parse::<Script>().expect_err("it is bad");
        assert!(error("A write 1").contains("begins with a number"));
        assert!(error("3; C write 1").contains("A, B, A2 or B2"));
    }
}
