//! A walk as text that a developer can write.

use std::fmt;
use std::str::FromStr;

/// A process that takes steps: `A` accepts, `B` connects, `A2` and `B2` are their forked children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walker(pub usize);

impl Walker {
    /// Greatest number of walkers.
    pub const COUNT: usize = 4;

    /// Returns its child by `fork`.
    pub fn child(self) -> Self {
        Self(self.0 + 2)
    }

    /// Returns true if the walker is a forked child.
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

/// One step: its walker, and the action in the words that [`super::end`] understands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Walker that takes the step.
    pub walker: Walker,
    /// A word and its numbers.
    pub action: String,
}

impl Step {
    /// Returns true if the step closes the walker's connection, or ends the walker.
    pub fn ends_walker_or_connection(&self) -> bool {
        matches!(self.action.as_str(), "close" | "exit" | "kill")
    }
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
    /// Steps in their order, one at a time.
    pub steps: Vec<Step>,
}

impl Script {
    /// Returns true if a step fills a path. The number of bytes in it differs from stack to stack.
    pub fn fills(&self) -> bool {
        self.steps
            .iter()
            .any(|Step { action, .. }| action == "fill" || action.starts_with("sleep send"))
    }

    /// Returns true if no step shows how much a path could hold: filled bytes are drained before other bytes are
    /// sent.
    pub fn is_fair(&self) -> bool {
        let mut is_full = [false, false];
        let (mut has_filled, mut has_shut) = ([false, false], [false, false]);
        self.steps.iter().all(|Step { walker: Walker(own), action }| {
            let verb = action.split(' ').next().unwrap_or_default();
            let (own, peer) = (own % 2, 1 - own % 2);
            match verb {
                // After a shutdown of the receiving half, a receive returns 0 as soon as nothing has arrived. So a
                // drain ends early or late, depending on how fast the peer sends on.
                "drain" if is_full[peer] && has_shut[own] => return false,
                "drain" => is_full[peer] = false,
                // The kernel's receive buffer grows while it is drained. How much goes into it then depends on time.
                "fill" if has_filled[own] => return false,
                "fill" => (is_full[own], has_filled[own]) = (true, true),
                "write" => return !is_full[own],
                // A peer that goes on sending sees the end or a reset, depending on how much is unread.
                "kill" | "exit" | "close" | "shutdown" if is_full[own] => return false,
                // Bytes that arrive after both halves are shut reset the connection, as soon as they arrive.
                "shutdown" if is_full[peer] => return false,
                "shutdown" => has_shut[own] |= !action.ends_with(" 1"),
                "read" => return !is_full[peer],
                "sleep" if action.contains("receive") => return !is_full[peer],
                "sleep" if action.contains("send") && has_filled[own] => return false,
                "sleep" if action.contains("send") => {
                    (is_full[own], has_filled[own]) = (true, true);
                }
                _ => {}
            }
            true
        })
    }
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

#[cfg(test)]
mod tests {
    use super::Script;
    use crate::walk::seeds::{Kind, of_seed};

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

    #[test]
    fn a_drain_after_a_shutdown_of_its_own_half_says_nothing() {
        let is_fair = |text: &str| text.parse::<Script>().expect("a walk").is_fair();
        assert!(is_fair("5; A shutdown 1; B sleep send 20000000; A drain"));
        assert!(is_fair("5; B shutdown 0; B sleep send 20000000; A drain"));
        assert!(!is_fair("5; A shutdown 0; B sleep send 20000000; A drain"));
        assert!(!is_fair("5; A shutdown 2; B fill; A2 drain"));
    }
}
