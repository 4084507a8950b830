//! The receiving end: its reads, its retreat, and what reads after it.

use crate::world::{FIN, Limits, Mode, Precautions, ReceiverAt, TO_TCP, World};
use sovia_proto::path::{
    self, CANCELLED, Drained, ENTERED, Grant, REFUSED, Recall, Rest, Returned, Rx, Source, Switch,
};

/// No limit to a read from TCP.
const ALL: u8 = 15;
/// Bytes that can be returned at once.
const BULK: u64 = 2;

/// What may happen to a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Act {
    /// The program reads.
    Read,
    Retreat,
    /// The next access of the call it is in; from TCP it reads all there is.
    Step,
    /// Reads a single byte from TCP.
    One,
    /// Another reader of the family reads while this one retreats.
    Other,
    /// Patience with the sender is over.
    GiveUp,
    Die,
}

/// What can happen next; true for what happens by itself as time goes by.
pub(crate) fn acts(w: &World, limits: &Limits, g: &Precautions, mut add: impl FnMut(Act, bool)) {
    let r = &w.r;
    if r.mode == Mode::Gone {
        return;
    }
    if limits.receiver_dies {
        add(Act::Die, false);
    }
    match r.at {
        ReceiverAt::Idle => {
            if !r.end {
                add(Act::Read, would_find(w, g));
            }
            if r.mode == Mode::Library && limits.receiver_retreats {
                add(Act::Retreat, false);
            }
        }
        ReceiverAt::DrainAnchor | ReceiverAt::WaitPumped | ReceiverAt::AwaitTakenBack => {
            let goes_on = match r.at {
                ReceiverAt::AwaitTakenBack => w.shared.taken_back || w.shared.tcp_end,
                ReceiverAt::DrainAnchor => {
                    !w.shared.vi.is_empty() || sees_end(w, g) || cancelled(w, g)
                }
                _ => w.shared.pumped || w.shared.tcp_end,
            };
            if goes_on {
                add(Act::Step, true);
            }
            // A death is noticed first.
            let over = r.at == ReceiverAt::DrainAnchor || !goes_on;
            if limits.impatience && over {
                let needed = w.s.mode == Mode::Stopped || w.shared.tcp.len() >= limits.room;
                add(Act::GiveUp, needed);
            }
            let there = if w.r.rx == Rx::Back { w.shared.tcp } else { w.shared.vi };
            if !g.others_wait && there.first().is_some_and(|item| item < TO_TCP) {
                add(Act::Other, false);
            }
        }
        ReceiverAt::Recv(_) => {
            add(Act::Step, true);
            if w.shared.tcp.len() > 1 {
                add(Act::One, false);
            }
        }
        _ => add(Act::Step, true),
    }
}

/// Whether a read, undisturbed, changes anything.
fn would_find(w: &World, g: &Precautions) -> bool {
    let mut after = *w;
    step(&mut after, Act::Read, g);
    while after.r.at != ReceiverAt::Idle {
        step(&mut after, Act::Step, g);
    }
    after != *w
}

/// The anchor shows that the sender is no more.
fn sees_end(w: &World, g: &Precautions) -> bool {
    w.shared.tcp_end && (g.see_death_behind_bytes || w.shared.tcp.is_empty())
}

/// Only a recall that has not entered finds the switch taken back while it drains.
fn cancelled(w: &World, g: &Precautions) -> bool {
    !g.recall_enters && w.shared.switch == CANCELLED
}

fn take(w: &mut World, byte: u8) {
    w.wrong |= byte != w.r.read;
    w.r.read += 1;
}

/// Lets it happen.
pub(crate) fn step(w: &mut World, act: Act, g: &Precautions) {
    match act {
        Act::Die => w.r.mode = Mode::Gone,
        Act::Read => w.r.at = begin(w),
        Act::Retreat => {
            if matches!(w.r.rx, Rx::Tcp | Rx::Back) {
                plain(w);
            } else {
                w.r.mode = Mode::Retreating;
                w.r.at = ReceiverAt::Recall;
            }
        }
        Act::Other => {
            let from = if w.r.rx == Rx::Back { &mut w.shared.tcp } else { &mut w.shared.vi };
            if let Some(byte) = from.pop() {
                take(w, byte);
            }
        }
        Act::GiveUp => give_up(w, g),
        Act::One => receive(w, 1, g),
        Act::Step => match w.r.at {
            ReceiverAt::Recv(limit) => receive(w, limit, g),
            at if w.r.mode == Mode::Retreating => retreat(w, at, g),
            at => read(w, at, g),
        },
    }
}

fn begin(w: &mut World) -> ReceiverAt {
    if w.r.mode == Mode::Relay
        && let Some(at) = relay(w)
    {
        return at;
    }
    match w.r.rx {
        Rx::Tcp => {
            w.r.rx = Rx::Granted;
            ReceiverAt::Grant
        }
        Rx::Granted => ReceiverAt::Look,
        Rx::Vi => ReceiverAt::Vi,
        Rx::Back => ReceiverAt::Recv(ALL),
    }
}

/// A relay reads TCP up to the switch, then what was unread, then as anybody would.
fn relay(w: &mut World) -> Option<ReceiverAt> {
    if w.r.may_come {
        return Some(ReceiverAt::Recv(ALL));
    }
    if let Switch::Entered(n) = Switch::from_word(w.shared.switch)
        && u64::from(w.r.rx_tcp) < n
    {
        return Some(ReceiverAt::Recv(n as u8 - w.r.rx_tcp));
    }
    let byte = w.r.unread.pop()?;
    take(w, byte);
    Some(ReceiverAt::Idle)
}

/// One read from TCP.
fn receive(w: &mut World, limit: u8, g: &Precautions) {
    w.r.at = ReceiverAt::Idle;
    let n = w.shared.tcp.len().min(limit);
    for _ in 0..n {
        if let Some(byte) = w.shared.tcp.pop() {
            w.r.rx_tcp += 1;
            take(w, byte);
        }
    }
    if n > 0 {
        return;
    }
    let granted = w.r.rx == Rx::Granted;
    if w.r.may_come && w.shared.tcp_end {
        w.r.at = ReceiverAt::KeptEnd;
    } else if !w.shared.tcp_end {
        w.r.at = if granted { ReceiverAt::LookAgain } else { ReceiverAt::Idle };
    } else if granted && g.look_at_end {
        w.r.at = ReceiverAt::EndAgain;
    } else {
        w.r.end = true;
    }
}

fn source(w: &World) -> Source {
    path::source(w.shared.switch, w.r.rx_tcp.into())
}

fn read(w: &mut World, at: ReceiverAt, g: &Precautions) {
    w.r.at = match at {
        ReceiverAt::Grant => {
            w.shared.grant = Grant::Granted as u64;
            ReceiverAt::Look
        }
        ReceiverAt::Look => match source(w) {
            Source::Tcp => ReceiverAt::Recv(ALL),
            Source::TcpUpTo(n) => ReceiverAt::Recv(n as u8),
            Source::Vi => ReceiverAt::Enter(w.shared.switch),
            Source::Impossible => {
                w.wrong = true;
                ReceiverAt::Idle
            }
        },
        ReceiverAt::Enter(word) => {
            if w.shared.switch == word || !g.enter_by_exchange {
                w.shared.switch = word | ENTERED;
                w.r.rx = Rx::Vi;
                ReceiverAt::Entered
            } else {
                ReceiverAt::Look
            }
        }
        ReceiverAt::Entered => {
            w.shared.grant = Grant::Entered as u64;
            ReceiverAt::Vi
        }
        ReceiverAt::LookAgain if source(w) == Source::Vi => ReceiverAt::Look,
        ReceiverAt::LookAgain => ReceiverAt::Idle,
        ReceiverAt::EndAgain if source(w) == Source::Vi => ReceiverAt::Look,
        ReceiverAt::EndAgain => {
            let s = &w.shared;
            let skip = path::rescue(w.r.rx, s.switch, s.taken_back, s.from, w.r.rx_tcp.into());
            match skip {
                Some(skip) if g.rescue => {
                    w.r.rx = Rx::Vi;
                    for _ in 0..skip {
                        w.shared.vi.pop();
                    }
                }
                _ => w.r.end = true,
            }
            ReceiverAt::Idle
        }
        ReceiverAt::Vi => match w.shared.vi.pop() {
            None => ReceiverAt::Anchor,
            Some(TO_TCP) => {
                w.r.rx = Rx::Back;
                ReceiverAt::Idle
            }
            Some(FIN) => {
                w.r.end = true;
                ReceiverAt::Idle
            }
            Some(byte) => {
                take(w, byte);
                ReceiverAt::Idle
            }
        },
        ReceiverAt::Anchor if w.shared.tcp.is_empty() && w.shared.tcp_end => ReceiverAt::Rescan,
        ReceiverAt::Anchor => ReceiverAt::Idle,
        ReceiverAt::Rescan if !w.shared.vi.is_empty() => ReceiverAt::Vi,
        ReceiverAt::Rescan => {
            w.r.end = true;
            ReceiverAt::Idle
        }
        ReceiverAt::KeptEnd => {
            w.r.may_come = false;
            let unread = w.r.unread.len();
            let missing = path::not_pumped(w.shared.switch, w.r.rx_tcp.into(), unread.into()) as u8;
            w.r.unread.keep_last(missing);
            ReceiverAt::Idle
        }
        _ => unreachable!("not reading: {at:?}"),
    };
}

/// The kernel's socket is all that a reader needs from here on.
fn plain(w: &mut World) {
    w.r.rx = Rx::Back;
    w.r.mode = Mode::Plain;
    w.r.at = ReceiverAt::Idle;
}

fn become_relay(w: &mut World, may_come: bool) {
    w.r.mode = Mode::Relay;
    w.r.may_come = may_come;
    w.r.at = ReceiverAt::Idle;
}

fn give_up(w: &mut World, g: &Precautions) {
    if !g.keep_when_impatient {
        plain(w);
    } else if w.r.at == ReceiverAt::WaitPumped {
        if g.relay_when_slow {
            return become_relay(w, true);
        }
        // The sender has them and lives: it delivers them as the program reads.
        w.r.let_go = true;
        plain(w);
    } else if w.r.at == ReceiverAt::AwaitTakenBack {
        become_relay(w, false);
    } else {
        w.r.at = ReceiverAt::Drained(Drained::Impatient);
    }
}

fn retreat(w: &mut World, at: ReceiverAt, g: &Precautions) {
    w.r.at = match at {
        ReceiverAt::Recall => {
            w.shared.grant = Grant::Recalled as u64;
            ReceiverAt::RecallLook
        }
        ReceiverAt::RecallLook => match path::recall(w.r.rx, w.shared.switch) {
            Recall::Nothing => return nothing_to_recall(w, g),
            Recall::Enter(word) if g.recall_enters => ReceiverAt::RecallEnter(word),
            Recall::Enter(_) | Recall::Drain => {
                w.r.rx = Rx::Vi;
                ReceiverAt::Drain
            }
        },
        ReceiverAt::RecallEnter(word) => {
            if w.shared.switch != word {
                return nothing_to_recall(w, g);
            }
            w.shared.switch = word | ENTERED;
            w.r.rx = Rx::Vi;
            ReceiverAt::Drain
        }
        ReceiverAt::AwaitTakenBack if w.shared.taken_back => return plain(w),
        // The sender has died over it: a relay reads TCP to its end, and finds the rest.
        ReceiverAt::AwaitTakenBack => return become_relay(w, false),
        ReceiverAt::Drain if cancelled(w, g) => ReceiverAt::Drained(Drained::ToTcp),
        ReceiverAt::Drain => match w.shared.vi.pop() {
            None => ReceiverAt::DrainAnchor,
            Some(TO_TCP) => {
                w.r.rx = Rx::Back;
                ReceiverAt::Drained(Drained::ToTcp)
            }
            Some(FIN) => ReceiverAt::Drained(Drained::Ended),
            Some(byte) => {
                w.r.unread.push(byte);
                ReceiverAt::Drain
            }
        },
        ReceiverAt::DrainAnchor if w.shared.vi.is_empty() && !cancelled(w, g) => {
            ReceiverAt::DrainRescan
        }
        ReceiverAt::DrainAnchor => ReceiverAt::Drain,
        ReceiverAt::DrainRescan if !w.shared.vi.is_empty() => ReceiverAt::Drain,
        ReceiverAt::DrainRescan => ReceiverAt::Drained(Drained::Ended),
        ReceiverAt::Drained(how) => match path::after_drain(how, w.r.unread.len().into(), BULK) {
            Rest::Plain => return plain(w),
            Rest::Return => ReceiverAt::GiveBack,
            Rest::Relay => ReceiverAt::Keep,
        },
        ReceiverAt::GiveBack => return give_back(w),
        ReceiverAt::WaitPumped if w.shared.pumped => return plain(w),
        // The sender is no more; what it has put on TCP counts, whether it said so or not.
        ReceiverAt::WaitPumped if g.keep_until_pumped => return become_relay(w, true),
        ReceiverAt::WaitPumped => return plain(w),
        ReceiverAt::Keep => {
            if w.shared.returned == 0 {
                w.shared.returned = path::returned_word(0);
            }
            return become_relay(w, false);
        }
        _ => unreachable!("not retreating: {at:?}"),
    };
}

/// The direction is on TCP, or will be when the sender has taken its bytes back.
fn nothing_to_recall(w: &mut World, g: &Precautions) {
    let cancelled = w.shared.switch == CANCELLED;
    if g.await_taking_back && cancelled && !w.shared.taken_back {
        w.r.at = ReceiverAt::AwaitTakenBack;
    } else {
        plain(w);
    }
}

fn give_back(w: &mut World) {
    let unread = w.r.unread;
    let refused = Returned::from_word(w.shared.returned) == Returned::Refused;
    debug_assert!(refused == (w.shared.returned == REFUSED));
    if !refused {
        w.shared.bulk = unread;
        w.shared.returned = path::returned_word(unread.len().into());
    }
    match (unread.is_empty(), refused) {
        (true, _) => plain(w),
        (false, true) => become_relay(w, false),
        (false, false) => w.r.at = ReceiverAt::WaitPumped,
    }
}
