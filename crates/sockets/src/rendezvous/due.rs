//! Schedule of a rendezvous: the transfers at which a connection takes a step.

use super::known;
use crate::config;
use crate::conn::Role;
use crate::table::Ref;
use core::sync::atomic::Ordering;

/// Returns true if a connection must take a step of its rendezvous after `n` transfers. `has_received`: the last one
/// was a receive.
pub(super) fn is_due(fd: i32, at: Ref, n: u32, has_received: bool) -> bool {
    let approach = &at.conn.approach;
    if approach.history.load(Ordering::Acquire) == 0 {
        known::prepare(fd, at);
    }
    // A check for a request costs an acceptor little, so an acceptor checks from the beginning.
    let (first, is_often) = match at.conn.role() {
        Role::Connector => (approach.known_after.load(Ordering::Relaxed), true),
        // The connector makes its request before it sends. So an acceptor that has sent since it last received finds
        // nothing new, unless it only sends.
        Role::Acceptor => (config::meet_after().unwrap_or(0), has_received),
    };
    let Some(since) = n.checked_sub(first) else { return false };
    is_look_due(since, is_often) || approach.is_eager(n)
}

/// Returns true if an end must look for the other end `since` transfers after its first look. At first an end looks at
/// each transfer (`is_often`), then less often, because a look takes one or two system calls. An end that sends and
/// receives in turn calls this function only with odd numbers, or only with even ones. So the rarer looks are due at
/// two consecutive numbers.
fn is_look_due(since: u32, is_often: bool) -> bool {
    match since {
        0..96 if is_often => true,
        0..1024 => since % 16 >= 14,
        _ => since % 256 >= 254,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_sends_and_receives_in_turn_goes_on_looking() {
        for first in 0..2 {
            let looks = |from: u32, to: u32| {
                (from + first..to).step_by(2).filter(|&since| is_look_due(since, true)).count()
            };
            assert_eq!(looks(0, 96), 48);
            assert_eq!(looks(96, 1024), 58);
            assert_eq!(looks(1024, 1024 + 2560), 10);
            let rare = (first..96).step_by(2).filter(|&since| is_look_due(since, false)).count();
            assert_eq!(rare, 6);
        }
    }
}
