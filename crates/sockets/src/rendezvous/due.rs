//! Schedule of a rendezvous: the transfers at which a connection takes a step.

use super::known;
use crate::config;
use crate::conn::Role;
use crate::table::Ref;
use core::sync::atomic::Ordering;

/// Returns true if a connection must take a step of its rendezvous after `n` transfers. `has_looked`: the last transfer was
/// a receive, after which this end has looked already.
pub(super) fn is_due(fd: i32, at: Ref, n: u32, has_looked: bool) -> bool {
    let approach = &at.conn.approach;
    if approach.history.load(Ordering::Acquire) == 0 {
        known::prepare(fd, at);
    }
    let first = match at.conn.role() {
        Role::Connector => approach.known_after.load(Ordering::Relaxed),
        // The connector makes its request before it sends. So an acceptor that has just received finds nothing new.
        Role::Acceptor if has_looked => return approach.is_eager(n),
        // A check for a request costs an acceptor little, so an acceptor checks from the beginning.
        Role::Acceptor => config::meet_after().unwrap_or(0),
    };
    let Some(since) = n.checked_sub(first) else { return false };
    is_look_due(since) || approach.is_eager(n)
}

/// Returns true if an end that has requested a VI must look for the answer after `n` transfers.
pub(super) fn is_answer_due(at: Ref, n: u32) -> bool {
    let approach = &at.conn.approach;
    // An acceptor's request to a NIC has no answer before the connector requests a VI as well, which may be never.
    let may_wait_long =
        at.conn.role() == Role::Acceptor && approach.messages.load(Ordering::Relaxed) != 0;
    approach.awaits_answer() && (!may_wait_long || is_look_due(n))
}

/// Returns true if an end must look for the other end `since` transfers after its first look. At first an end looks
/// at each transfer, then less often, because a look takes one or two system calls. An end that sends and receives
/// in turn calls this function only with odd numbers, or only with even ones. So the later looks are due at two
/// consecutive numbers.
fn is_look_due(since: u32) -> bool {
    match since {
        0..96 => true,
        96..1024 => since % 16 < 2,
        _ => since % 256 < 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_sends_and_receives_in_turn_goes_on_looking() {
        for first in 0..2 {
            let looks = |from: u32, to: u32| {
                (from + first..to).step_by(2).filter(|&since| is_look_due(since)).count()
            };
            assert_eq!(looks(96, 1024), 58);
            assert_eq!(looks(1024, 1024 + 2560), 10);
        }
    }
}
