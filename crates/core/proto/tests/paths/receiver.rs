//! The receiving end: its reads.
//!
//! At any time, one of its threads may be in the middle of a read or of a step of the fallback.

use crate::paths::fallback;
use crate::paths::precautions::Precautions;
use crate::paths::world::{FIN, FallbackAt, Limits, Mode, ReaderAt, TO_TCP, World};
use sovia_proto::path::reflected::{self, End, Next, Verdict};
use sovia_proto::path::{self, ENTERED, Grant, Rx, Seen, Source, Switch};

/// No limit to a read from TCP.
const ALL: u8 = 15;

/// An event at the receiver.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Act {
    /// The program reads. During a fallback, another process of the family reads.
    Read,
    /// The next access of the current read. From TCP it reads all bytes that have arrived.
    Step,
    /// Reads a single byte from TCP.
    One,
    /// Finds nothing on TCP, because bytes or the end are still on their way across the network.
    Late,
    /// A fallback begins, or a thread begins it anew after another thread has ended.
    Fallback,
    /// The next access of the fallback.
    FallbackStep,
    /// The time limit for the sender expires.
    GiveUp,
    /// The thread that carries out the fallback ends.
    Abandon,
    Die,
}

/// Adds the possible next events. The flag is true for events that happen by themselves as time passes.
pub(crate) fn acts(w: &World, limits: &Limits, g: &Precautions, mut add: impl FnMut(Act, bool)) {
    let r = &w.r;
    if r.mode == Mode::Gone {
        return;
    }
    if limits.receiver_dies {
        add(Act::Die, false);
    }
    if r.fallback.is_between_steps() || !g.one_at_a_time {
        match r.at {
            ReaderAt::Idle => {
                if !r.end {
                    add(Act::Read, r.fallback == FallbackAt::Not && would_find(w, g));
                }
            }
            ReaderAt::Recv(_) => {
                add(Act::Step, true);
                if w.tcp.len() > 1 {
                    add(Act::One, false);
                }
                if w.other_host.is_some() && (!w.tcp.is_empty() || w.tcp_end) {
                    add(Act::Late, false);
                }
            }
            _ => add(Act::Step, true),
        }
    }
    if r.at == ReaderAt::Idle || !g.one_at_a_time {
        fallback::acts(w, limits, g, add);
    }
}

/// Returns true if a read that is not disturbed would change anything.
fn would_find(w: &World, g: &Precautions) -> bool {
    let mut after = *w;
    step(&mut after, Act::Read, g);
    while after.r.at != ReaderAt::Idle {
        step(&mut after, Act::Step, g);
    }
    after != *w
}

fn take(w: &mut World, byte: u8) {
    w.wrong |= byte != w.r.read;
    w.r.read += 1;
}

/// Carries out the event.
pub(crate) fn step(w: &mut World, act: Act, g: &Precautions) {
    match act {
        Act::Die => w.r.mode = Mode::Gone,
        Act::Read => w.r.at = begin(w, g),
        Act::One => receive(w, 1, g),
        Act::Late => w.r.at = found_nothing(w.r.rx),
        Act::Step => match w.r.at {
            ReaderAt::Recv(limit) => receive(w, limit, g),
            at => read(w, at, g),
        },
        Act::Fallback => fallback::begin(w, g),
        Act::FallbackStep => fallback::step(w, g),
        Act::GiveUp => fallback::give_up(w, g),
        Act::Abandon => fallback::abandon(w, g),
    }
}

fn begin(w: &mut World, g: &Precautions) -> ReaderAt {
    if w.r.proposed {
        match fallback::verdict(w, g) {
            Verdict::Pending if g.hold_reads => return ReaderAt::Idle,
            Verdict::Pending => {}
            Verdict::Accepted => {
                w.r.rx = Rx::Back;
                w.r.proposed = false;
            }
            Verdict::Refused | Verdict::None => w.r.proposed = false,
        }
    }
    match w.r.rx {
        Rx::Tcp => {
            w.r.rx = Rx::Granted;
            ReaderAt::Grant
        }
        Rx::Granted => ReaderAt::Look,
        Rx::Vi => ReaderAt::Vi,
        Rx::Back => ReaderAt::Recv(ALL),
    }
}

fn found_nothing(rx: Rx) -> ReaderAt {
    if rx == Rx::Granted { ReaderAt::LookAgain } else { ReaderAt::Idle }
}

/// Reads from TCP once.
fn receive(w: &mut World, limit: u8, g: &Precautions) {
    w.r.at = ReaderAt::Idle;
    let n = w.tcp.len().min(limit);
    for _ in 0..n {
        if let Some(byte) = w.tcp.pop() {
            w.r.rx_tcp += 1;
            take(w, byte);
        }
    }
    if n > 0 {
        return;
    }
    if !w.tcp_end {
        w.r.at = found_nothing(w.r.rx);
    } else if w.r.mode != Mode::Plain && g.look_at_end {
        w.r.at = ReaderAt::EndAgain;
    } else {
        w.r.end = true;
    }
}

/// Returns the source of the next bytes for a reader on TCP.
fn source(w: &World) -> Source {
    match w.r.rx {
        Rx::Granted => path::source(w.seen().switch, w.r.rx_tcp.into()),
        _ => Source::Tcp,
    }
}

fn read(w: &mut World, at: ReaderAt, g: &Precautions) {
    w.r.at = match at {
        ReaderAt::Grant => {
            w.seen_mut().grant = Grant::Granted as u64;
            ReaderAt::Look
        }
        ReaderAt::Look if w.other_host.is_some() => look(w, g),
        ReaderAt::Look => match source(w) {
            Source::Tcp => ReaderAt::Recv(ALL),
            Source::TcpUpTo(n) => ReaderAt::Recv(n as u8),
            Source::Vi if matches!(Switch::from_word(w.shared.switch), Switch::Entered(_)) => {
                w.r.rx = Rx::Vi;
                if g.keep_revoke { ReaderAt::Vi } else { ReaderAt::Entered }
            }
            Source::Vi => ReaderAt::Enter(w.shared.switch),
            Source::Impossible => {
                w.wrong = true;
                ReaderAt::Idle
            }
        },
        ReaderAt::Enter(word) => {
            if w.shared.switch == word || !g.enter_by_exchange {
                w.shared.switch = word | ENTERED;
                w.r.rx = Rx::Vi;
                ReaderAt::Entered
            } else {
                ReaderAt::Look
            }
        }
        ReaderAt::Entered => {
            w.shared.grant = Grant::Entered as u64;
            ReaderAt::Vi
        }
        ReaderAt::LookAgain if source(w) == Source::Vi => ReaderAt::Look,
        ReaderAt::LookAgain => ReaderAt::Idle,
        ReaderAt::EndAgain if source(w) == Source::Vi => ReaderAt::Look,
        ReaderAt::EndAgain => {
            end(w, g);
            ReaderAt::Idle
        }
        ReaderAt::Claim => {
            fallback::claim(w);
            ReaderAt::Look
        }
        ReaderAt::Vi => match w.take_item() {
            None => ReaderAt::KernelSocket,
            Some(TO_TCP) => {
                w.r.rx = Rx::Back;
                let grant = Grant::from_word(w.seen().grant);
                if g.answer_as_reader && reflected::answers_at_to_tcp(grant, w.seen().returned) {
                    w.seen_mut().returned = path::answer(Seen::ToTcp, 0);
                }
                ReaderAt::Idle
            }
            Some(FIN) => {
                w.r.end = true;
                ReaderAt::Idle
            }
            Some(byte) => {
                take(w, byte);
                ReaderAt::Idle
            }
        },
        // Between hosts, only an end that has come on the VI counts.
        ReaderAt::KernelSocket if w.other_host.is_some() && w.gone(g) => ReaderAt::Rescan,
        ReaderAt::KernelSocket if w.other_host.is_none() && w.tcp.is_empty() && w.tcp_end => {
            ReaderAt::Rescan
        }
        ReaderAt::KernelSocket => ReaderAt::Idle,
        ReaderAt::Rescan if !w.unread().is_empty() => ReaderAt::Vi,
        ReaderAt::Rescan => {
            w.r.end = true;
            ReaderAt::Idle
        }
        _ => unreachable!("not reading: {at:?}"),
    };
}

/// Returns the next step of a read between hosts.
fn look(w: &mut World, g: &Precautions) -> ReaderAt {
    let Some(other_host) = &w.other_host else { return ReaderAt::Idle };
    if w.r.rx != Rx::Granted {
        return ReaderAt::Recv(ALL);
    }
    match reflected::next(
        other_host.words.switch,
        w.r.rx_tcp.into(),
        other_host.claimed,
        other_host.gone,
    ) {
        Next::Tcp => ReaderAt::Recv(ALL),
        Next::TcpUpTo(n) => ReaderAt::Recv(n as u8),
        Next::Claim => ReaderAt::Claim,
        Next::Await if g.await_claim => ReaderAt::Idle,
        Next::Await | Next::Vi => {
            w.r.rx = Rx::Vi;
            ReaderAt::Vi
        }
        Next::Impossible => {
            w.wrong = true;
            ReaderAt::Idle
        }
    }
}

/// Handles the end of TCP. The rest of TCP's bytes may be on the VI.
fn end(w: &mut World, g: &Precautions) {
    // A reader on the VI comes here only after the VI's end.
    match reflected::end(w.r.rx, &w.known(g), w.r.rx_tcp.into(), true) {
        End::Again => unreachable!("looked at before"),
        End::Await => {}
        End::Rescue(skip) if g.rescue || w.r.rx == Rx::Back => {
            w.r.rx = Rx::Vi;
            for _ in 0..if g.skip_what_came { skip } else { 0 } {
                if w.unread().first().is_some_and(|item| item < TO_TCP) {
                    w.take_item();
                }
            }
        }
        End::Over | End::Rescue(_) => w.r.end = true,
    }
}
