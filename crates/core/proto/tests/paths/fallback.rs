//! The receiver's fallback. It looks at the VI and takes nothing off it.

use crate::paths::precautions::Precautions;
use crate::paths::receiver::Act;
use crate::paths::world::{FallbackAt, Limits, Mode, Seq, TO_TCP, World};
use sovia_proto::path::reflected::{self, Revoked, Verdict};
use sovia_proto::path::{self, Await, ENTERED, Grant, Rest, Revoke, Rx, Seen};

/// Adds the possible next events of the fallback.
pub(crate) fn acts(w: &World, limits: &Limits, g: &Precautions, mut add: impl FnMut(Act, bool)) {
    let goes_on = match w.r.fallback {
        FallbackAt::Not => {
            if w.r.mode == Mode::Library && limits.receiver_falls_back {
                add(Act::Fallback, false);
            }
            return;
        }
        FallbackAt::Abandoned => return add(Act::Fallback, true),
        FallbackAt::AwaitTakenBack => w.seen().taken_back || w.gone(g),
        FallbackAt::AwaitDrained => w.seen().drained || w.gone(g),
        FallbackAt::AwaitSwitch => revoked(w, g) != Revoked::Await,
        FallbackAt::AwaitVerdict => !w.r.proposed || verdict(w, g) != Verdict::Pending,
        FallbackAt::Await(_) => {
            look(w.unread()).0.is_some() || sees_end(w, g) || !path::revokes(w.r.rx)
        }
        _ => true,
    };
    if goes_on {
        add(Act::FallbackStep, true);
    }
    if limits.abandons {
        add(Act::Abandon, false);
    }
    // A death is noticed before the time limit expires.
    let over = match w.r.fallback {
        FallbackAt::Await(_) => true,
        FallbackAt::AwaitTakenBack | FallbackAt::AwaitDrained => !goes_on,
        FallbackAt::AwaitSwitch | FallbackAt::AwaitVerdict => !goes_on,
        _ => false,
    };
    if limits.impatience && over {
        let needed = w.s.mode == Mode::Stopped || w.tcp.len() >= limits.room;
        add(Act::GiveUp, needed);
    }
}

/// Returns true if the kernel socket shows that the sender has ended.
fn sees_end(w: &World, g: &Precautions) -> bool {
    w.gone(g) && (g.see_death_behind_bytes || w.tcp.is_empty())
}

/// Returns the end of the VI's part, and the number of bytes before that end.
fn look(vi: Seq) -> (Option<Seen>, u8) {
    let n = (0..vi.len()).find(|&at| vi.get(at) >= TO_TCP);
    let seen = n.map(|at| if vi.get(at) == TO_TCP { Seen::ToTcp } else { Seen::Ended });
    (seen, n.unwrap_or(vi.len()))
}

/// Leaves the socket to the kernel: from here on a reader needs only the kernel socket.
fn plain(w: &mut World) {
    w.r.rx = Rx::Back;
    w.r.mode = Mode::Plain;
    w.r.fallback = FallbackAt::Not;
}

/// Ends a fallback that has failed. Ordinary reading goes on.
fn keep(w: &mut World) {
    w.r.mode = Mode::Library;
    w.r.fallback = FallbackAt::Not;
}

pub(crate) fn give_up(w: &mut World, g: &Precautions) {
    let keeps = match w.r.fallback {
        FallbackAt::AwaitDrained => g.keep_when_drained_slowly,
        FallbackAt::AwaitTakenBack => g.keep_when_taken_slowly,
        _ => g.keep_when_impatient,
    };
    match w.r.fallback {
        _ if !keeps => plain(w),
        FallbackAt::Await(n) => w.r.fallback = FallbackAt::Answer(Seen::Impatient, n),
        FallbackAt::AwaitSwitch => w.r.fallback = FallbackAt::Answer(Seen::Impatient, 0),
        _ => keep(w),
    }
}

/// Begins a fallback.
pub(crate) fn begin(w: &mut World, g: &Precautions) {
    if path::revokes(w.r.rx) || !g.revoke_what_runs && w.r.rx == Rx::Back {
        w.r.mode = Mode::FallingBack;
        w.r.fallback = FallbackAt::Revoke;
    } else {
        nothing_to_revoke(w, g);
    }
}

/// Ends the thread that carries out the fallback.
pub(crate) fn abandon(w: &mut World, g: &Precautions) {
    match w.r.fallback {
        // The thread has ended after it returned the bytes, and before it recorded this. The next thread that takes
        // the lock completes the record.
        FallbackAt::Return if g.finish_return => {
            w.r.rx = Rx::Back;
            keep(w);
        }
        // Only the mode shows that a fallback has begun. After the return the mode no longer shows it.
        _ if w.r.mode == Mode::FallingBack => w.r.fallback = FallbackAt::Abandoned,
        _ => w.r.fallback = FallbackAt::Not,
    }
}

pub(crate) fn step(w: &mut World, g: &Precautions) {
    w.r.fallback = match w.r.fallback {
        FallbackAt::Revoke => {
            w.seen_mut().grant = Grant::Revoked as u64;
            FallbackAt::RevokeLook
        }
        FallbackAt::RevokeLook if w.other_host.is_some() => match revoked(w, g) {
            Revoked::Nothing => return nothing_to_revoke(w, g),
            Revoked::Claim => FallbackAt::Claim,
            Revoked::Await => FallbackAt::AwaitSwitch,
            Revoked::Drain => FallbackAt::Look,
        },
        FallbackAt::RevokeLook => match path::revoke(w.r.rx, w.shared.switch) {
            Revoke::Nothing => return nothing_to_revoke(w, g),
            Revoke::Enter(word) if g.revoke_enters => FallbackAt::RevokeEnter(word),
            Revoke::Enter(_) | Revoke::Drain => FallbackAt::Look,
        },
        FallbackAt::RevokeEnter(word) if w.shared.switch != word => FallbackAt::RevokeLook,
        FallbackAt::RevokeEnter(word) => {
            w.shared.switch = word | ENTERED;
            if !g.tcp_first {
                w.r.rx = Rx::Vi;
            }
            FallbackAt::Look
        }
        FallbackAt::Claim => {
            claim(w);
            FallbackAt::RevokeLook
        }
        FallbackAt::AwaitSwitch => FallbackAt::RevokeLook,
        // Meanwhile a reader has found the rest on the VI.
        FallbackAt::AwaitTakenBack | FallbackAt::AwaitDrained if w.r.rx == Rx::Vi => {
            return keep(w);
        }
        FallbackAt::AwaitTakenBack if w.seen().taken_back => return plain(w),
        // The sender has died before it took back all its bytes.
        FallbackAt::AwaitTakenBack => return keep(w),
        FallbackAt::Look => match look(w.unread()) {
            (Some(seen), n) => FallbackAt::Answer(seen, n),
            (None, n) => FallbackAt::Await(n),
        },
        // Meanwhile a reader has come to ToTcp.
        FallbackAt::Await(_) if !path::revokes(w.r.rx) => return nothing_to_revoke(w, g),
        FallbackAt::Await(n) if sees_end(w, g) => FallbackAt::LookAgain(n),
        FallbackAt::Await(_) => FallbackAt::Look,
        FallbackAt::LookAgain(n) if !g.look_at_vi_again => FallbackAt::Answer(Seen::Ended, n),
        FallbackAt::LookAgain(_) => {
            let (seen, n) = look(w.unread());
            FallbackAt::Answer(seen.unwrap_or(Seen::Ended), n)
        }
        FallbackAt::Answer(seen, n) => return answer(w, seen, n, g),
        FallbackAt::AwaitVerdict => return settle(w, g),
        FallbackAt::Return => {
            w.r.rx = Rx::Back;
            w.r.mode = Mode::Library;
            FallbackAt::AwaitDrained
        }
        FallbackAt::AwaitDrained if w.seen().drained => return plain(w),
        // The sender has died.
        FallbackAt::AwaitDrained => return keep(w),
        at @ (FallbackAt::Not | FallbackAt::Abandoned) => unreachable!("not retreating: {at:?}"),
    };
}

/// Continues a fallback whose direction is on TCP, or will be once the sender has put all due bytes there.
fn nothing_to_revoke(w: &mut World, g: &Precautions) {
    match reflected::on_tcp(w.r.rx, &w.known(g)) {
        Await::TakenBack if g.await_taking_back => w.r.fallback = FallbackAt::AwaitTakenBack,
        Await::Drained => {
            w.r.mode = Mode::Library;
            w.r.fallback = FallbackAt::AwaitDrained;
        }
        Await::Nothing | Await::TakenBack => plain(w),
    }
}

/// Answers the sender, and decides the fate of the `n` bytes on the VI.
fn answer(w: &mut World, seen: Seen, n: u8, g: &Precautions) {
    let found = w.seen().returned;
    if found == 0 {
        w.seen_mut().returned = path::answer(seen, n.into());
    }
    let rest = match &w.other_host {
        Some(other_host) => {
            match reflected::rest(seen, n.into(), found, other_host.verdict, other_host.gone) {
                reflected::Rest::Pending if g.await_verdict => {
                    w.r.proposed = true;
                    w.r.fallback = FallbackAt::AwaitVerdict;
                    return;
                }
                reflected::Rest::Plain => Rest::Plain,
                reflected::Rest::Kept => Rest::Kept,
                reflected::Rest::Returned | reflected::Rest::Pending => Rest::Returned,
            }
        }
        None => path::rest(seen, n.into(), found),
    };
    w.r.proposed = false;
    match rest {
        Rest::Plain => plain(w),
        Rest::Kept => keep(w),
        Rest::Returned => {
            w.r.fallback = FallbackAt::Return;
            if !g.stay_until_drained {
                w.shared.vi = Seq::default();
            }
        }
    }
}

/// Continues after the verdict, which a reader may have noticed before.
fn settle(w: &mut World, g: &Precautions) {
    let accepted = w.r.proposed && verdict(w, g) == Verdict::Accepted;
    w.r.proposed = false;
    if accepted {
        w.r.fallback = FallbackAt::Return;
    } else if w.r.rx == Rx::Back {
        nothing_to_revoke(w, g);
    } else {
        keep(w);
    }
}

/// Claims the switch.
pub(crate) fn claim(w: &mut World) {
    if let Some(other_host) = &mut w.other_host {
        other_host.claimed = true;
    }
}

/// Returns the result of a revoke between hosts.
fn revoked(w: &World, g: &Precautions) -> Revoked {
    let Some(other_host) = &w.other_host else { return Revoked::Nothing };
    let confirmed = other_host.confirmed || !g.await_confirmation;
    reflected::revoke(
        w.r.rx,
        other_host.words.switch,
        other_host.claimed,
        confirmed,
        other_host.gone,
    )
}

/// Returns the state of bytes that the receiver has proposed to return.
pub(crate) fn verdict(w: &World, g: &Precautions) -> Verdict {
    let known = w.known(g);
    reflected::verdict(w.seen().returned, known.verdict, known.gone)
}
