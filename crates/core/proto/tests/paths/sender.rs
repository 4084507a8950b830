//! The sending end: its calls, its progress thread, its fallback and its end.

use crate::paths::precautions::Precautions;
use crate::paths::world::{Call, FIN, Limits, Mode, SenderAt, TO_TCP, World};
use sovia_proto::path::reflected::{self, Answer};
use sovia_proto::path::{self, BeforeSend, CANCELLED, Grant, Leave, Owed, REFUSED, Tx};

/// An event at the sender.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Act {
    /// A call begins.
    Begin(Call),
    /// The next access of the current call.
    Step,
    /// Puts one more byte on the VI without another look.
    Again,
    /// The time limit for the receiver's answer expires.
    GiveUp,
    /// The thread that carries out the fallback ends.
    Abandon,
    Die,
    Stop,
}

/// Adds the possible next events. The flag is true for events that happen by themselves as time passes.
pub(crate) fn acts(w: &World, limits: &Limits, g: &Precautions, mut add: impl FnMut(Act, bool)) {
    let s = &w.s;
    if matches!(s.mode, Mode::Gone | Mode::Stopped) {
        return;
    }
    if limits.sender_dies {
        add(Act::Die, false);
    }
    if limits.sender_stops {
        add(Act::Stop, false);
    }
    if s.at != SenderAt::Idle {
        // If the receiver is dead, its kernel accepts or refuses bytes without waiting.
        let room = w.tcp.len() < limits.room || w.r.mode == Mode::Gone;
        let closes = matches!(s.call, Call::Shutdown | Call::Close);
        let waits = match s.at {
            SenderAt::Kernel => !room,
            // A program that closes does not wait.
            SenderAt::Drain(_) => !room && !closes,
            SenderAt::TakeBack(n) => !room && !s.shut && n < s.own.len(),
            _ => false,
        };
        if !waits {
            add(Act::Step, true);
        }
        if matches!(s.at, SenderAt::Drain(_)) && closes {
            add(Act::GiveUp, false);
        }
        if s.at == SenderAt::More && s.next < limits.bytes {
            add(Act::Again, false);
        }
        return;
    }
    let falling_back = s.mode == Mode::FallingBack;
    let library = s.mode == Mode::Library;
    let grant = Grant::from_word(w.shared.grant);
    let unanswered = s.owes && path::owed(grant, w.shared.returned) == Owed::Wait;
    // A receiver that has died returns nothing.
    let held = unanswered && g.hold_back && w.r.mode != Mode::Gone;
    if s.next < limits.bytes && !s.shut && !held {
        add(Act::Begin(Call::Send), true);
    }
    if library || falling_back {
        let revoked = s.tx == Tx::Vi && grant == Grant::Revoked;
        let answered = s.owes && w.shared.returned != 0;
        if revoked || answered {
            add(Act::Begin(Call::Serve), true);
        }
    }
    if library && limits.sender_falls_back {
        add(Act::Begin(Call::Fallback), false);
    }
    if falling_back {
        if !held {
            add(Act::Begin(Call::Settle), true);
        } else if limits.impatience {
            add(Act::GiveUp, false);
        }
        if limits.abandons {
            add(Act::Abandon, false);
        }
    }
    if limits.closes {
        add(Act::Begin(Call::Close), false);
        if !s.shut {
            add(Act::Begin(Call::Shutdown), false);
        }
    }
}

/// Carries out the event.
pub(crate) fn step(w: &mut World, act: Act, g: &Precautions) {
    match act {
        Act::Die => {
            w.s.mode = Mode::Gone;
            w.tcp_end = true;
        }
        Act::Stop => w.s.mode = Mode::Stopped,
        Act::Begin(call) => {
            w.s.call = call;
            begin(w, call, g);
        }
        Act::Again => put(w),
        Act::GiveUp if w.s.at == SenderAt::Idle => {
            w.s.call = Call::Settle;
            w.s.at = SenderAt::Refuse;
        }
        // The receiver finds the rest on the VI.
        Act::GiveUp => w.s.at = SenderAt::Shut,
        Act::Abandon => w.s.mode = Mode::Library,
        Act::Step => advance(w, g),
    }
}

fn begin(w: &mut World, call: Call, g: &Precautions) {
    let s = &mut w.s;
    s.at = match (call, s.tx) {
        // The sender will not drain bytes that the receiver returns from here on.
        (Call::Shutdown | Call::Close, Tx::Vi) if !s.fin => SenderAt::Refuse,
        (Call::Shutdown | Call::Close, _) if s.owes => SenderAt::Refuse,
        (Call::Shutdown | Call::Close, _) => SenderAt::Shut,
        (Call::Fallback, Tx::Vi) => SenderAt::Leave,
        (Call::Fallback, _) => return left(w, g),
        _ if s.mode == Mode::Plain => SenderAt::Kernel,
        (_, Tx::Tcp) => SenderAt::Grant,
        (_, Tx::Vi) => SenderAt::Check,
        (_, Tx::Back) if s.owes => SenderAt::Settle,
        (Call::Settle, Tx::Back) => return detach(w),
        (_, Tx::Back) => SenderAt::Kernel,
    };
}

/// Ends the sender's part on the VI. The sender settles its debt later, when its other direction is back on TCP.
fn left(w: &mut World, g: &Precautions) {
    if !w.s.owes {
        return detach(w);
    }
    w.s.mode = Mode::FallingBack;
    w.s.at = if g.refuse_late { SenderAt::Idle } else { SenderAt::Refuse };
}

/// Leaves the socket to the kernel.
fn detach(w: &mut World) {
    debug_assert!(!w.s.owes);
    w.s.tx = Tx::Back;
    w.s.mode = Mode::Plain;
    w.s.at = SenderAt::Idle;
}

fn put(w: &mut World) {
    w.shared.vi.push(w.s.next);
    w.s.own.push(w.s.next);
    w.s.next += 1;
    w.s.at = SenderAt::More;
}

/// Continues the call, because no returned bytes are left to drain.
fn settled(w: &mut World) {
    w.s.owes = false;
    match w.s.call {
        Call::Send => w.s.at = SenderAt::Kernel,
        Call::Serve => w.s.at = SenderAt::Idle,
        Call::Fallback | Call::Settle => detach(w),
        Call::Shutdown | Call::Close => w.s.at = SenderAt::Shut,
    }
}

fn advance(w: &mut World, g: &Precautions) {
    let grant = Grant::from_word(w.shared.grant);
    match w.s.at {
        SenderAt::Idle => unreachable!("not in a call"),
        SenderAt::Grant => {
            w.s.at = if path::before_send(w.s.tx, grant, w.s.owes) == BeforeSend::Switch {
                w.s.tx = Tx::Vi;
                SenderAt::Publish
            } else {
                SenderAt::Kernel
            };
        }
        SenderAt::Publish => {
            w.shared.from = w.s.tcp_sent.into();
            w.shared.switch = path::switch_word(w.shared.from);
            w.s.at = if g.look_at_grant_again { SenderAt::GrantAgain } else { SenderAt::Check };
        }
        SenderAt::GrantAgain => {
            w.s.at = if path::keeps_switch(grant) { SenderAt::Check } else { SenderAt::GrantGone };
        }
        SenderAt::GrantGone => {
            // Nothing is on the VI yet.
            w.shared.taken_back = true;
            w.s.at = SenderAt::Unswitch;
        }
        SenderAt::Unswitch => {
            let word = path::switch_word(w.shared.from);
            w.s.at = if w.shared.switch == word || !g.unswitch_by_exchange {
                w.shared.switch = CANCELLED;
                w.s.tx = Tx::Back;
                SenderAt::Kernel
            } else {
                SenderAt::Check
            };
        }
        SenderAt::Check => {
            w.s.at = match path::before_send(w.s.tx, grant, w.s.owes) {
                BeforeSend::Answer if w.other_host.is_some() && g.cancel_unclaimed => {
                    SenderAt::AnswerLook
                }
                BeforeSend::Answer => SenderAt::Answer,
                // A reader that has just entered has overwritten the revoke. The receiver will repeat the revoke.
                _ if w.s.call == Call::Serve => SenderAt::Idle,
                _ => SenderAt::Put,
            };
        }
        SenderAt::Put => put(w),
        SenderAt::More => w.s.at = SenderAt::Idle,
        SenderAt::AnswerLook => {
            w.s.at = match reflected::answers(w.s.tx, w.shared.switch, w.s.fin) {
                Answer::Cancel(word) => SenderAt::Cancel(word),
                Answer::End | Answer::Not => SenderAt::Answer,
            };
        }
        SenderAt::Answer => {
            w.s.tx = Tx::Back;
            // After a FIN no newer bytes follow that would have to wait, and the sender can drain nothing.
            if !w.s.fin {
                w.s.owes = true;
                w.shared.vi.push(TO_TCP);
            }
            w.s.at = if g.hold_back || w.s.call != Call::Send {
                SenderAt::Idle
            } else {
                SenderAt::Kernel
            };
        }
        SenderAt::Settle => w.s.at = SenderAt::Returned(grant),
        SenderAt::Returned(grant) => returned(w, grant, g),
        SenderAt::Drain(n) => drain(w, n, g),
        SenderAt::Drained => {
            w.shared.drained = true;
            settled(w);
        }
        SenderAt::Kernel => {
            w.tcp.push(w.s.next);
            w.s.next += 1;
            w.s.tcp_sent += 1;
            w.s.at = SenderAt::Idle;
        }
        SenderAt::Leave | SenderAt::Cancel(_) | SenderAt::TakeBack(_) => leave(w, g),
        SenderAt::Refuse => {
            let refused = w.shared.returned == 0;
            if refused && g.refuse {
                w.shared.returned = REFUSED;
            }
            match (w.s.tx, w.s.call) {
                (Tx::Vi, _) => w.s.at = SenderAt::Fin,
                _ if refused => settled(w),
                _ => w.s.at = SenderAt::Settle,
            }
        }
        SenderAt::ToTcp => {
            w.s.tx = Tx::Back;
            w.s.owes = true;
            w.shared.vi.push(TO_TCP);
            left(w, g);
        }
        SenderAt::Fin => {
            w.shared.vi.push(FIN);
            w.s.fin = true;
            w.s.at = SenderAt::Shut;
        }
        SenderAt::Shut => {
            w.tcp_end = true;
            w.s.owes = false;
            w.s.shut = true;
            w.s.at = SenderAt::Idle;
            if w.s.call == Call::Close {
                w.s.mode = Mode::Gone;
            }
        }
    }
}

fn returned(w: &mut World, grant: Grant, g: &Precautions) {
    match path::owed(grant, w.shared.returned) {
        Owed::Nothing => settled(w),
        Owed::Drain(n) if n > u64::from(w.s.drained) => w.s.at = SenderAt::Drain(n as u8),
        Owed::Drain(_) => w.s.at = SenderAt::Drained,
        Owed::Refuse => w.s.at = SenderAt::Refuse,
        // A receiver that has died returns nothing.
        Owed::Wait if w.r.mode == Mode::Gone || !g.hold_back => settled(w),
        Owed::Wait => w.s.at = SenderAt::Idle,
    }
}

/// Puts one of `n` returned bytes on TCP. These bytes lie unread on the VI.
fn drain(w: &mut World, n: u8, g: &Precautions) {
    let byte = if g.stay_until_drained {
        w.shared.vi.get(w.s.drained)
    } else {
        w.s.own.get(w.s.own.len() - n + w.s.drained)
    };
    w.tcp.push(byte);
    w.s.drained += 1;
    w.s.at = if w.s.drained == n { SenderAt::Drained } else { SenderAt::Drain(n) };
}

/// Carries out a step of a fallback from the VI.
fn leave(w: &mut World, g: &Precautions) {
    match w.s.at {
        SenderAt::Leave => {
            let fin = w.s.fin && g.keep_after_fin;
            w.s.at = match path::leave(w.s.tx, w.shared.switch, fin, false) {
                Leave::Quietly => return detach(w),
                Leave::Cancel(word) if g.cancel_before_entry => SenderAt::Cancel(word),
                Leave::Cancel(_) | Leave::End => SenderAt::ToTcp,
            };
        }
        SenderAt::Cancel(word) => {
            w.s.at = if w.shared.switch == word {
                w.shared.switch = CANCELLED;
                w.s.tx = Tx::Back;
                SenderAt::TakeBack(0)
            } else if w.s.call == Call::Fallback {
                SenderAt::ToTcp
            } else {
                SenderAt::Answer
            };
        }
        SenderAt::TakeBack(n) => {
            // A kernel socket that is shut accepts no bytes, and does not wait.
            if n == w.s.own.len() || w.s.shut {
                w.shared.taken_back = true;
                // A sender that was revoked keeps its other direction.
                return if w.s.call == Call::Fallback {
                    detach(w)
                } else {
                    w.s.at = SenderAt::Idle
                };
            }
            w.tcp.push(w.s.own.get(n));
            w.s.at = SenderAt::TakeBack(n + 1);
        }
        _ => unreachable!("not leaving"),
    }
}
