//! The receiving end: its reads, and its retreat, which looks at the VI and takes nothing off it.
//!
//! One of its threads at a time is in the middle of a read, or of a step of the retreat.

use crate::world::{FIN, Limits, Mode, Precautions, ReaderAt, RetreatAt, Seq, TO_TCP, World};
use sovia_proto::path::{self, Await, ENTERED, Grant, Recall, Rest, Rx, Seen, Source, Switch};

/// No limit to a read from TCP.
const ALL: u8 = 15;

/// What may happen to a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Act {
    /// The program reads. During a retreat: another reader of the family does.
    Read,
    /// The next access of the read it is in; from TCP it reads all there is.
    Step,
    /// Reads a single byte from TCP.
    One,
    /// A retreat begins, or a thread begins it anew where another has gone away.
    Retreat,
    /// Its next access.
    RetreatStep,
    /// Patience with the sender is over.
    GiveUp,
    /// The thread that retreats goes away.
    Abandon,
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
    if r.retreat.is_between_steps() || !g.one_at_a_time {
        match r.at {
            ReaderAt::Idle => {
                if !r.end {
                    add(Act::Read, r.retreat == RetreatAt::Not && would_find(w, g));
                }
            }
            ReaderAt::Recv(_) => {
                add(Act::Step, true);
                if w.shared.tcp.len() > 1 {
                    add(Act::One, false);
                }
            }
            _ => add(Act::Step, true),
        }
    }
    if r.at == ReaderAt::Idle || !g.one_at_a_time {
        retreats(w, limits, g, add);
    }
}

fn retreats(w: &World, limits: &Limits, g: &Precautions, mut add: impl FnMut(Act, bool)) {
    let goes_on = match w.r.retreat {
        RetreatAt::Not => {
            if w.r.mode == Mode::Library && limits.receiver_retreats {
                add(Act::Retreat, false);
            }
            return;
        }
        RetreatAt::Abandoned => return add(Act::Retreat, true),
        RetreatAt::AwaitTakenBack => w.shared.taken_back || w.shared.tcp_end,
        RetreatAt::AwaitPumped => w.shared.pumped || w.shared.tcp_end,
        RetreatAt::Await(_) => {
            look(w.shared.vi).0.is_some() || sees_end(w, g) || !path::recalls(w.r.rx)
        }
        _ => true,
    };
    if goes_on {
        add(Act::RetreatStep, true);
    }
    if limits.abandons {
        add(Act::Abandon, false);
    }
    // A death is noticed first.
    let over = match w.r.retreat {
        RetreatAt::Await(_) => true,
        RetreatAt::AwaitTakenBack | RetreatAt::AwaitPumped => !goes_on,
        _ => false,
    };
    if limits.impatience && over {
        let needed = w.s.mode == Mode::Stopped || w.shared.tcp.len() >= limits.room;
        add(Act::GiveUp, needed);
    }
}

/// Whether a read, undisturbed, changes anything.
fn would_find(w: &World, g: &Precautions) -> bool {
    let mut after = *w;
    step(&mut after, Act::Read, g);
    while after.r.at != ReaderAt::Idle {
        step(&mut after, Act::Step, g);
    }
    after != *w
}

/// The anchor shows that the sender is no more.
fn sees_end(w: &World, g: &Precautions) -> bool {
    w.shared.tcp_end && (g.see_death_behind_bytes || w.shared.tcp.is_empty())
}

/// How the VI's part ends, and how many bytes lie before that.
fn look(vi: Seq) -> (Option<Seen>, u8) {
    let n = (0..vi.len()).find(|&at| vi.get(at) >= TO_TCP);
    let seen = n.map(|at| if vi.get(at) == TO_TCP { Seen::ToTcp } else { Seen::Ended });
    (seen, n.unwrap_or(vi.len()))
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
        Act::One => receive(w, 1, g),
        Act::Step => match w.r.at {
            ReaderAt::Recv(limit) => receive(w, limit, g),
            at => read(w, at, g),
        },
        Act::Retreat if path::recalls(w.r.rx) || !g.recall_what_runs && w.r.rx == Rx::Back => {
            w.r.mode = Mode::Retreating;
            w.r.retreat = RetreatAt::Recall;
        }
        Act::Retreat => nothing_to_recall(w, g),
        Act::RetreatStep => retreat(w, g),
        Act::GiveUp => give_up(w, g),
        // Whoever takes the lock next finds that it was about to return the bytes, and that it has.
        Act::Abandon if w.r.retreat == RetreatAt::Return && g.finish_return => {
            w.r.rx = Rx::Back;
            w.r.mode = Mode::Library;
            w.r.retreat = RetreatAt::Not;
        }
        // Nothing but its flag says that there was one, and that has gone once it has returned.
        Act::Abandon if w.r.mode == Mode::Retreating => w.r.retreat = RetreatAt::Abandoned,
        Act::Abandon => w.r.retreat = RetreatAt::Not,
    }
}

fn begin(w: &mut World) -> ReaderAt {
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

/// One read from TCP.
fn receive(w: &mut World, limit: u8, g: &Precautions) {
    w.r.at = ReaderAt::Idle;
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
    if !w.shared.tcp_end {
        w.r.at = if w.r.rx == Rx::Granted { ReaderAt::LookAgain } else { ReaderAt::Idle };
    } else if w.r.mode != Mode::Plain && g.look_at_end {
        w.r.at = ReaderAt::EndAgain;
    } else {
        w.r.end = true;
    }
}

/// Where a reader on TCP finds the next bytes.
fn source(w: &World) -> Source {
    match w.r.rx {
        Rx::Granted => path::source(w.shared.switch, w.r.rx_tcp.into()),
        _ => Source::Tcp,
    }
}

fn read(w: &mut World, at: ReaderAt, g: &Precautions) {
    w.r.at = match at {
        ReaderAt::Grant => {
            w.shared.grant = Grant::Granted as u64;
            ReaderAt::Look
        }
        ReaderAt::Look => match source(w) {
            Source::Tcp => ReaderAt::Recv(ALL),
            Source::TcpUpTo(n) => ReaderAt::Recv(n as u8),
            Source::Vi if matches!(Switch::from_word(w.shared.switch), Switch::Entered(_)) => {
                w.r.rx = Rx::Vi;
                if g.keep_recall { ReaderAt::Vi } else { ReaderAt::Entered }
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
            rescue(w, g);
            ReaderAt::Idle
        }
        ReaderAt::Vi => match w.shared.vi.pop() {
            None => ReaderAt::Anchor,
            Some(TO_TCP) => {
                w.r.rx = Rx::Back;
                let recalled = Grant::from_word(w.shared.grant) == Grant::Recalled;
                if g.answer_as_reader && recalled && w.shared.returned == 0 {
                    w.shared.returned = path::answer(Seen::ToTcp, 0);
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
        ReaderAt::Anchor if w.shared.tcp.is_empty() && w.shared.tcp_end => ReaderAt::Rescan,
        ReaderAt::Anchor => ReaderAt::Idle,
        ReaderAt::Rescan if !w.shared.vi.is_empty() => ReaderAt::Vi,
        ReaderAt::Rescan => {
            w.r.end = true;
            ReaderAt::Idle
        }
        _ => unreachable!("not reading: {at:?}"),
    };
}

/// TCP has ended; the rest of what should have come there is on the VI.
fn rescue(w: &mut World, g: &Precautions) {
    let s = &w.shared;
    let (from, read) = (s.from, w.r.rx_tcp.into());
    let skip = path::rescue(w.r.rx, s.switch, s.taken_back, s.returned, s.pumped, from, read);
    match skip.filter(|_| g.rescue || w.r.rx == Rx::Back) {
        None => w.r.end = true,
        Some(skip) => {
            w.r.rx = Rx::Vi;
            for _ in 0..if g.skip_what_came { skip } else { 0 } {
                if w.shared.vi.first().is_some_and(|item| item < TO_TCP) {
                    w.shared.vi.pop();
                }
            }
        }
    }
}

/// The kernel's socket is all that a reader needs from here on.
fn plain(w: &mut World) {
    w.r.rx = Rx::Back;
    w.r.mode = Mode::Plain;
    w.r.retreat = RetreatAt::Not;
}

/// The retreat has failed. Ordinary reading goes on.
fn keep(w: &mut World) {
    w.r.mode = Mode::Library;
    w.r.retreat = RetreatAt::Not;
}

fn give_up(w: &mut World, g: &Precautions) {
    let keeps = match w.r.retreat {
        RetreatAt::AwaitPumped => g.keep_when_pumped_slowly,
        RetreatAt::AwaitTakenBack => g.keep_when_taken_slowly,
        _ => g.keep_when_impatient,
    };
    match w.r.retreat {
        _ if !keeps => plain(w),
        RetreatAt::Await(n) => w.r.retreat = RetreatAt::Answer(Seen::Impatient, n),
        _ => keep(w),
    }
}

fn retreat(w: &mut World, g: &Precautions) {
    w.r.retreat = match w.r.retreat {
        RetreatAt::Recall => {
            w.shared.grant = Grant::Recalled as u64;
            RetreatAt::RecallLook
        }
        RetreatAt::RecallLook => match path::recall(w.r.rx, w.shared.switch) {
            Recall::Nothing => return nothing_to_recall(w, g),
            Recall::Enter(word) if g.recall_enters => RetreatAt::RecallEnter(word),
            Recall::Enter(_) | Recall::Drain => RetreatAt::Look,
        },
        RetreatAt::RecallEnter(word) if w.shared.switch != word => RetreatAt::RecallLook,
        RetreatAt::RecallEnter(word) => {
            w.shared.switch = word | ENTERED;
            if !g.tcp_first {
                w.r.rx = Rx::Vi;
            }
            RetreatAt::Look
        }
        // A reader has found the rest on the VI meanwhile.
        RetreatAt::AwaitTakenBack | RetreatAt::AwaitPumped if w.r.rx == Rx::Vi => return keep(w),
        RetreatAt::AwaitTakenBack if w.shared.taken_back => return plain(w),
        // The sender has died over it.
        RetreatAt::AwaitTakenBack => return keep(w),
        RetreatAt::Look => match look(w.shared.vi) {
            (Some(seen), n) => RetreatAt::Answer(seen, n),
            (None, n) => RetreatAt::Await(n),
        },
        // A reader has come to ToTcp meanwhile.
        RetreatAt::Await(_) if !path::recalls(w.r.rx) => return nothing_to_recall(w, g),
        RetreatAt::Await(n) if sees_end(w, g) => RetreatAt::LookAgain(n),
        RetreatAt::Await(_) => RetreatAt::Look,
        RetreatAt::LookAgain(n) if !g.look_at_vi_again => RetreatAt::Answer(Seen::Ended, n),
        RetreatAt::LookAgain(_) => {
            let (seen, n) = look(w.shared.vi);
            RetreatAt::Answer(seen.unwrap_or(Seen::Ended), n)
        }
        RetreatAt::Answer(seen, n) => return answer(w, seen, n, g),
        RetreatAt::Return => {
            w.r.rx = Rx::Back;
            w.r.mode = Mode::Library;
            RetreatAt::AwaitPumped
        }
        RetreatAt::AwaitPumped if w.shared.pumped => return plain(w),
        // The sender is no more.
        RetreatAt::AwaitPumped => return keep(w),
        at @ (RetreatAt::Not | RetreatAt::Abandoned) => unreachable!("not retreating: {at:?}"),
    };
}

/// The direction is on TCP, or will be when the sender has put there what it is to put there.
fn nothing_to_recall(w: &mut World, g: &Precautions) {
    let s = &w.shared;
    match path::on_tcp(w.r.rx, s.switch, s.taken_back, s.returned, s.pumped) {
        Await::TakenBack if g.await_taking_back => w.r.retreat = RetreatAt::AwaitTakenBack,
        Await::Pumped => {
            w.r.mode = Mode::Library;
            w.r.retreat = RetreatAt::AwaitPumped;
        }
        Await::Nothing | Await::TakenBack => plain(w),
    }
}

/// Says what becomes of the `n` bytes on the VI.
fn answer(w: &mut World, seen: Seen, n: u8, g: &Precautions) {
    let found = w.shared.returned;
    if found == 0 {
        w.shared.returned = path::answer(seen, n.into());
    }
    match path::rest(seen, n.into(), found) {
        Rest::Plain => plain(w),
        Rest::Kept => keep(w),
        Rest::Returned => {
            w.r.retreat = RetreatAt::Return;
            if !g.stay_until_pumped {
                w.shared.vi = Seq::default();
            }
        }
    }
}
