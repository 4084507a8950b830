//! Two ends on two hosts ([`crate::paths::carrier`]).

use crate::paths::carrier::Nics;
use crate::paths::direction::Direction;
use crate::paths::precautions::Precautions;
use crate::paths::world::Limits;
use crate::paths::{connection, holds, visits_all, within, without};

/// Returns a direction between hosts that follows the protocol with all precautions.
fn between(nics: Nics, limits: Limits) -> Direction {
    Direction { between_hosts: Some(nics), ..within(limits) }
}

#[test]
fn between_hosts_two_ends_that_live_and_act_deliver_everything() {
    holds(between(Nics::Slow, Limits { bytes: 1, ..Limits::CALM }));
    for bytes in 2..=3 {
        holds(between(Nics::Prompt, Limits { bytes, ..Limits::CALM }));
    }
}

#[test]
fn between_hosts_every_accepted_byte_is_read_whichever_end_stops_or_dies() {
    holds(between(Nics::Prompt, Limits { bytes: 1, room: 1, ..Limits::WILD }));
}

#[test]
#[ignore = "minutes, and gigabytes: more bytes, and NICs that stand still before any step"]
fn between_hosts_in_larger_cases() {
    holds(between(Nics::Prompt, Limits { bytes: 2, room: 1, ..Limits::WILD }));
    holds(between(Nics::Slow, Limits { bytes: 1, ..Limits::WILD }));
    holds(between(Nics::Slow, Limits { bytes: 2, ..Limits::CALM }));
    holds(between(Nics::Prompt, Limits { bytes: 2, ..Limits::WILD }));
}

#[test]
fn between_hosts_every_precaution_is_needed() {
    type LeaveOut = fn(&mut Precautions);
    let calm = Limits { bytes: 2, closes: false, abandons: false, ..Limits::CALM };
    let close = Limits { bytes: 1, abandons: false, ..Limits::CALM };
    let kill =
        Limits { bytes: 2, closes: false, sender_dies: true, abandons: false, ..Limits::CALM };
    let stop = Limits { sender_stops: true, impatience: true, ..kill };
    let cases: [(&str, Limits, LeaveOut); 11] = [
        ("only the receiver claims", calm, |p| p.receiver_claims = false),
        ("await the claim's outcome", calm, |p| p.await_claim = false),
        ("cancel what is not claimed", stop, |p| p.cancel_unclaimed = false),
        ("await the confirmation", close, |p| p.await_confirmation = false),
        ("store the recall, then look", kill, |p| p.revoke_before_look = false),
        ("tell the switch, then confirm", close, |p| p.switch_before_confirmation = false),
        ("await the verdict", calm, |p| p.await_verdict = false),
        ("read nothing before the verdict", calm, |p| p.hold_reads = false),
        ("consumed before returned", calm, |p| p.consumed_before_returned = false),
        ("TCP's end is not the stream's", close, |p| p.await_gone = false),
        ("gone is last", close, |p| p.gone_is_last = false),
    ];
    for (name, limits, leave_out) in cases {
        let found = without(between(Nics::Slow, limits), leave_out);
        assert!(!found.is_empty(), "nothing went wrong without: {name}");
    }
}

#[test]
#[ignore = "minutes: both directions"]
fn between_hosts_both_directions_together_deliver_everything() {
    let mut model = connection([1, 1], false, false);
    model.between_hosts = true;
    model.limits = model.limits.map(|limits| Limits { abandons: false, ..limits });
    visits_all(model);
}
