//! The sending end: its calls, its progress thread, its retreat, its end.

use crate::world::{Call, FIN, Limits, Mode, Precautions, SenderAt, TO_TCP, World};
use sovia_proto::path::{self, Before, CANCELLED, Grant, Leave, REFUSED, Returned, Tx};

/// What may happen to a sender.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Act {
    /// A call begins.
    Begin(Call),
    /// The next access of the call it is in.
    Step,
    /// One more byte without another look.
    Again,
    Die,
    Stop,
}

/// What can happen next; true for what happens by itself as time goes by.
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
        // A dead receiver's kernel takes, or refuses, anything.
        let room = w.shared.tcp.len() < limits.room || w.r.mode == Mode::Gone;
        let waits = match s.at {
            SenderAt::Kernel => !room,
            SenderAt::Pump => !room,
            SenderAt::TakeBack(n) => !room && !s.shut && n < s.own.len(),
            _ => false,
        };
        if !waits {
            add(Act::Step, true);
        }
        if s.at == SenderAt::More && s.next < limits.bytes {
            add(Act::Again, false);
        }
        return;
    }
    let returned = Returned::from_word(w.shared.returned);
    let library = s.mode == Mode::Library;
    let held = library && s.tx == Tx::Back && s.owes && returned.owed().is_none() && g.hold_back;
    if s.next < limits.bytes && !s.shut && (!held || w.r.mode == Mode::Gone) {
        add(Act::Begin(Call::Send), true);
    }
    if library {
        let recalled = s.tx == Tx::Vi && Grant::from_word(w.shared.grant) == Grant::Recalled;
        let pump = s.tx == Tx::Back && s.owes && returned.owed().is_some() && !s.shut;
        if recalled || pump {
            add(Act::Begin(Call::Serve), true);
        }
        if limits.sender_retreats {
            add(Act::Begin(Call::Retreat), false);
        }
    }
    if limits.closes {
        add(Act::Begin(Call::Close), false);
        if !s.shut {
            add(Act::Begin(Call::Shutdown), false);
        }
    }
}

/// Lets it happen.
pub(crate) fn step(w: &mut World, act: Act, g: &Precautions) {
    match act {
        Act::Die => {
            w.s.mode = Mode::Gone;
            w.shared.tcp_end = true;
        }
        Act::Stop => w.s.mode = Mode::Stopped,
        Act::Begin(call) => {
            w.s.call = call;
            begin(w, call, g);
        }
        Act::Again => put(w),
        Act::Step => advance(w, g),
    }
}

fn begin(w: &mut World, call: Call, g: &Precautions) {
    let s = &mut w.s;
    s.at = match (call, s.tx) {
        // FIN, close and retreat: what is returned from here on will not be pumped.
        (Call::Shutdown | Call::Close, Tx::Vi) if !s.fin => SenderAt::Refuse,
        (Call::Retreat, Tx::Vi) => SenderAt::Refuse,
        (Call::Shutdown | Call::Close | Call::Retreat, _) if s.owes && g.refuse => SenderAt::Refuse,
        (Call::Shutdown | Call::Close, _) => SenderAt::Shut,
        _ if s.mode == Mode::Plain => SenderAt::Kernel,
        (Call::Retreat, _) => return detach(w),
        (_, Tx::Tcp) => SenderAt::Grant,
        (_, Tx::Vi) => SenderAt::Check,
        (_, Tx::Back) if s.owes => SenderAt::Returned,
        (_, Tx::Back) => SenderAt::Kernel,
    };
}

/// It is an ordinary socket from here on.
fn detach(w: &mut World) {
    w.s.tx = Tx::Back;
    w.s.owes = false;
    w.s.mode = Mode::Plain;
    w.s.at = SenderAt::Idle;
}

fn put(w: &mut World) {
    w.shared.vi.push(w.s.next);
    w.s.own.push(w.s.next);
    w.s.next += 1;
    w.s.at = SenderAt::More;
}

/// Nothing returned is left to be pumped: the call goes on.
fn settled(w: &mut World) {
    w.s.owes = false;
    match w.s.call {
        Call::Send => w.s.at = SenderAt::Kernel,
        Call::Serve => w.s.at = SenderAt::Idle,
        Call::Retreat => detach(w),
        Call::Shutdown | Call::Close => w.s.at = SenderAt::Shut,
    }
}

fn advance(w: &mut World, g: &Precautions) {
    let grant = Grant::from_word(w.shared.grant);
    match w.s.at {
        SenderAt::Idle => unreachable!("not in a call"),
        SenderAt::Grant => {
            w.s.at = if path::before_send(w.s.tx, grant, w.s.owes) == Before::Switch {
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
                Before::Answer => SenderAt::Answer,
                _ => SenderAt::Put,
            };
        }
        SenderAt::Put => put(w),
        SenderAt::More => w.s.at = SenderAt::Idle,
        SenderAt::Answer => {
            w.s.tx = Tx::Back;
            // After a FIN nothing comes that would have to wait, and nothing can be pumped.
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
        SenderAt::Returned => returned(w, g),
        SenderAt::Pump => {
            w.shared.tcp.push(w.shared.bulk.get(w.s.pumped));
            w.s.pumped += 1;
            if w.s.pumped == w.shared.bulk.len() {
                w.s.at = SenderAt::Pumped;
            }
        }
        SenderAt::Pumped => {
            w.shared.pumped = true;
            settled(w);
        }
        SenderAt::Kernel => {
            w.shared.tcp.push(w.s.next);
            w.s.next += 1;
            w.s.tcp_sent += 1;
            w.s.at = SenderAt::Idle;
        }
        SenderAt::Leave | SenderAt::Cancel(_) | SenderAt::TakeBack(_) => leave(w, g),
        SenderAt::Refuse => {
            if w.shared.returned == 0 && g.refuse {
                w.shared.returned = REFUSED;
            }
            w.s.at = match (w.s.tx, w.s.call) {
                (Tx::Vi, Call::Retreat) => SenderAt::Leave,
                (Tx::Vi, _) => SenderAt::Fin,
                _ => SenderAt::Returned,
            };
        }
        SenderAt::ToTcp => {
            w.shared.vi.push(TO_TCP);
            detach(w);
        }
        SenderAt::Fin => {
            w.shared.vi.push(FIN);
            w.s.fin = true;
            w.s.at = SenderAt::Shut;
        }
        SenderAt::Shut => {
            w.shared.tcp_end = true;
            w.s.shut = true;
            w.s.at = SenderAt::Idle;
            if w.s.call == Call::Close {
                w.s.mode = Mode::Gone;
            }
        }
    }
}

fn returned(w: &mut World, g: &Precautions) {
    match Returned::from_word(w.shared.returned).owed() {
        Some(n) if n > u64::from(w.s.pumped) => w.s.at = SenderAt::Pump,
        Some(_) => w.s.at = SenderAt::Pumped,
        // A receiver that has died returns nothing.
        None if w.r.mode == Mode::Gone || !g.hold_back => settled(w),
        None => w.s.at = SenderAt::Idle,
    }
}

/// Steps of a retreat from the VI.
fn leave(w: &mut World, g: &Precautions) {
    match w.s.at {
        SenderAt::Leave => {
            let fin = w.s.fin && g.keep_after_fin;
            w.s.at = match path::leave(w.s.tx, w.shared.switch, fin) {
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
            } else {
                SenderAt::ToTcp
            };
        }
        SenderAt::TakeBack(n) => {
            if n == w.s.own.len() {
                w.shared.taken_back = true;
                return detach(w);
            }
            if w.s.shut {
                // The kernel takes no more.
                return detach(w);
            }
            w.shared.tcp.push(w.s.own.get(n));
            w.s.at = SenderAt::TakeBack(n + 1);
        }
        _ => unreachable!("not leaving"),
    }
}
