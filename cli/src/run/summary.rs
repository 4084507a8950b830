//! Summary of `sovia run -v`. `-vv` also prints advice and counters of Sovia's own work.

use std::fmt;

use nix::unistd::getuid;
use sovia_control::{Junk, Reason, StatsPage, env};

use crate::advice::{Ends, advice};
use crate::databases;

/// The counters of a run, formatted for the user. Counters of 0 are left out.
pub(super) struct Summary<'a> {
    pub(super) page: &'a StatsPage,
    /// True if the summary also gives advice on connections that stayed on TCP, and lists counters that explain Sovia's
    /// work but no result.
    pub(super) is_detailed: bool,
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let page = self.page;
        let (accelerated, stayed) = (page.accelerated(), page.stayed());
        if accelerated == 0 && stayed == 0 && page.recorded() == 0 {
            // A process without the library counts nothing. The same holds for a process of another user, which may not
            // open the page.
            let unseen = "programs without the library, and those of another user, are not seen";
            writeln!(f, "sovia: no TCP connections seen ({unseen})")?;
        } else {
            writeln!(
                f,
                "sovia: accelerated: {}",
                plural(accelerated, "end of a connection", "ends of connections")
            )?;
            writeln!(f, "sovia: stayed on TCP: {stayed}")?;
        }
        for &reason in Reason::ALL {
            if let count @ 1.. = page.stayed_for(reason) {
                writeln!(f, "sovia: {count:>7}  {}", reason.describe())?;
                for line in self.advice(reason) {
                    writeln!(f, "sovia: {:>7}    to change it: {line}", "")?;
                }
            }
            if reason == Reason::OtherUser {
                for (uid, count) in page.users() {
                    if is_without_number(uid) {
                        let whom = "users whose IDs are not mapped in this user namespace, so that no rule can name them";
                        writeln!(f, "sovia: {:>7}    {count} to {whom}", "")?;
                        continue;
                    }
                    let (name, term) = names_of(uid);
                    writeln!(
                        f,
                        "sovia: {:>7}    {count} to {name}: start this end with --trust {term}, and the other end with --trust for this user",
                        ""
                    )?;
                }
            }
        }
        if let open @ 1.. = page.undecided() {
            writeln!(f, "sovia: on TCP and still open when the program ended: {open}")?;
        }
        if accelerated > 0 {
            let traffic = page.traffic();
            writeln!(
                f,
                "sovia: sent {} in {}, received {}",
                Bytes(traffic.bytes_sent),
                plural(traffic.messages_sent, "message", "messages"),
                Bytes(traffic.bytes_received)
            )?;
        }
        if self.is_detailed { self.details(f) } else { Ok(()) }
    }
}

impl Summary<'_> {
    /// Writes the counters of Sovia's own work.
    fn details(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let page = self.page;
        let traffic = page.traffic();
        if page.accelerated() > 0 {
            writeln!(
                f,
                "sovia: threads slept {}, and woke a sleeping peer {}",
                plural(traffic.sleeps, "time", "times"),
                plural(traffic.rings, "time", "times")
            )?;
        }
        for (count, what) in [
            (traffic.messages_handled, "handled by a thread of Sovia"),
            (traffic.messages_registered, "sent from registered memory"),
        ] {
            if count > 0 {
                writeln!(f, "sovia: {} {what}", plural(count, "message", "messages"))?;
            }
        }
        let dropped: u64 = Junk::ALL.iter().map(|&junk| page.junk(junk)).sum();
        if dropped > 0 {
            writeln!(
                f,
                "sovia: ignored while ends looked for each other: {} (this harms no connection)",
                plural(dropped, "message", "messages")
            )?;
        }
        for &junk in Junk::ALL {
            if let count @ 1.. = page.junk(junk) {
                writeln!(f, "sovia: {count:>7}  {}", junk.describe())?;
            }
        }
        Ok(())
    }

    /// Returns advice on connections that stayed on TCP for this reason, as far as `sovia run` knows the ends.
    fn advice(&self, reason: Reason) -> Vec<String> {
        // The lines about each user give this advice with the user's name.
        if !self.is_detailed || reason == Reason::OtherUser {
            return Vec::new();
        }
        let (uid, rules) = (getuid().as_raw(), std::env::var(env::RULES).ok());
        let user = databases::name_of_user(uid).ok().flatten().unwrap_or_else(|| uid.to_string());
        advice(reason, &Ends { user, rules, ..Ends::default() })
    }
}

/// Returns true if `uid` is the overflow ID, by which a user namespace shows every user without an ID in the namespace.
fn is_without_number(uid: u32) -> bool {
    const OVERFLOW: u32 = 65534;
    const EVERY_USER: &str = "4294967295";
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    uid == OVERFLOW && map.split_ascii_whitespace().nth(2) != Some(EVERY_USER)
}

/// Returns a user's description for people, and the user's form in rules.
fn names_of(uid: u32) -> (String, String) {
    match databases::name_of_user(uid) {
        Ok(Some(name)) => (format!("the user {name}"), format!("user={name}")),
        _ => (format!("the user with id {uid}"), format!("uid={uid}")),
    }
}

fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// A number of bytes, printed in decimal units.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.0 as f64;
        for unit in ["B", "kB", "MB", "GB"] {
            if value < 1000.0 {
                let decimals = if unit == "B" { 0 } else { 1 };
                return write!(f, "{value:.decimals$} {unit}");
            }
            value /= 1000.0;
        }
        write!(f, "{value:.1} TB")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Board;
    use sovia_control::Traffic;

    fn summary(page: &StatsPage) -> Summary<'_> {
        Summary { page, is_detailed: false }
    }

    #[test]
    fn advice_stands_below_its_reason() {
        let board = Board::new().unwrap();
        board.page().count(Reason::PeerPlain);
        board.page().count(Reason::NoDescriptors);
        let said = Summary { page: board.page(), is_detailed: true }.to_string();
        let lines: Vec<_> = said.lines().collect();
        let expected = [
            "sovia:       1  the other end did not answer (does it run under Sovia?)",
            "sovia:            to change it: start the other end's program with:  sovia run -- PROGRAM",
            "sovia:       1  the limit on file descriptors leaves none for Sovia (ulimit -n)",
            "sovia:            to change it: run this before you start the program:  ulimit -n 4096",
        ];
        assert_eq!(lines[2..6], expected, "{said}");
    }

    #[test]
    fn an_idle_run_has_one_line() {
        let board = Board::new().unwrap();
        let said = summary(board.page()).to_string();
        assert!(said.starts_with("sovia: no TCP connections seen (") && said.lines().count() == 1);
        // The summary cannot say that there were no connections: the program may have changed its user.
        assert!(said.contains("another user") && said.contains("without the library"), "{said}");
    }

    #[test]
    fn summary_names_every_counter_that_moved() {
        let board = Board::new().unwrap();
        let page = board.page();
        page.count_accelerated();
        page.count(Reason::PeerPlain);
        page.count(Reason::PeerPlain);
        page.count(Reason::Rule);
        page.count(Reason::OtherUser);
        page.count_user(0);
        (0..5).for_each(|_| page.count_recorded());
        page.count_decided();
        page.count_junk(Junk::User);
        page.add(&Traffic {
            bytes_sent: 1_500,
            messages_sent: 1,
            bytes_received: 7,
            sleeps: 2,
            rings: 0,
            messages_handled: 3,
            messages_registered: 1,
        });
        let results = "\
sovia: accelerated: 1 end of a connection
sovia: stayed on TCP: 4
sovia:       2  the other end did not answer (does it run under Sovia?)
sovia:       1  kept on TCP by a rule
sovia:       1  the other end belongs to another user
sovia:            1 to the user root: start this end with --trust user=root, and the other end with --trust for this user
sovia: on TCP and still open when the program ended: 4
sovia: sent 1.5 kB in 1 message, received 7 B
";
        assert_eq!(summary(page).to_string(), results);
        let details = "\
sovia: threads slept 2 times, and woke a sleeping peer 0 times
sovia: 3 messages handled by a thread of Sovia
sovia: 1 message sent from registered memory
sovia: ignored while ends looked for each other: 1 message (this harms no connection)
sovia:       1  from another user
";
        let detailed = Summary { page, is_detailed: true }.to_string();
        assert!(detailed.ends_with(&format!("received 7 B\n{details}")), "{detailed}");
    }
}
