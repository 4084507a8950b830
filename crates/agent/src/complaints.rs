//! Reports to the agent's owner about programs. Programs can cause a report at any rate, so repeated reports are
//! limited.

use core::fmt::Display;
use std::collections::HashMap;

/// Number of occurrences of each report, by user and text.
#[derive(Debug, Default)]
pub(crate) struct Complaints(HashMap<(u32, String), u64>);

impl Complaints {
    /// Prints a report the first time, and then whenever its number of occurrences has doubled. So no program can
    /// fill the log.
    pub(crate) fn say(&mut self, uid: u32, what: impl Display) {
        if let Some(line) = self.line(uid, what) {
            eprintln!("sovia-agent: {line}");
        }
    }

    fn line(&mut self, uid: u32, what: impl Display) -> Option<String> {
        let what = what.to_string();
        let line = format!("a program of user {uid} {what}");
        let count = self.0.entry((uid, what)).or_default();
        *count += 1;
        match *count {
            1 => Some(line),
            n if n.is_power_of_two() => Some(format!("{line} ({n} times so far)")),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_a_thousand_times_is_said_ten_times() {
        let mut complaints = Complaints::default();
        let said: Vec<_> = (0..1000).filter_map(|_| complaints.line(7, "is odd")).collect();
        assert_eq!(said.len(), 10);
        assert_eq!(said[0], "a program of user 7 is odd");
        assert_eq!(said[9], "a program of user 7 is odd (512 times so far)");
        assert!(complaints.line(7, "is even").is_some() && complaints.line(8, "is odd").is_some());
    }
}
