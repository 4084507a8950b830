//! The receiver's retreat: it looks at the VI and takes nothing off it.

use crate::paths::precautions::Precautions;
use crate::paths::receiver::Act;
use crate::paths::world::{Limits, Mode, RetreatAt, Seq, TO_TCP, World};
use sovia_proto::path::reflected::{self, Recalled, Verdict};
use sovia_proto::path::{self, Await, ENTERED, Grant, Recall, Rest, Rx, Seen};

/// What can happen next in it.
pub(crate) fn acts(w: &World, limits: &Limits, g: &Precautions, mut add: impl FnMut(Act, bool)) {
    let goes_on = match w.r.retreat {
        RetreatAt::Not => {
            if w.r.mode == Mode::Library && limits.receiver_retreats {
                add(Act::Retreat, false);
            }
            return;
        }
        RetreatAt::Abandoned => return add(Act::Retreat, true),
        RetreatAt::AwaitTakenBack => w.seen().taken_back || w.gone(g),
        RetreatAt::AwaitPumped => w.seen().pumped || w.gone(g),
        RetreatAt::AwaitSwitch => recalled(w, g) != Recalled::Await,
        RetreatAt::AwaitVerdict => !w.r.proposed || verdict(w, g) != Verdict::Pending,
        RetreatAt::Await(_) => {
            look(w.unread()).0.is_some() || sees_end(w, g) || !path::recalls(w.r.rx)
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
        RetreatAt::AwaitSwitch | RetreatAt::AwaitVerdict => !goes_on,
        _ => false,
    };
    if limits.impatience && over {
        let needed = w.s.mode == Mode::Stopped || w.tcp.len() >= limits.room;
        add(Act::GiveUp, needed);
    }
}

/// The anchor shows that the sender is no more.
fn sees_end(w: &World, g: &Precautions) -> bool {
    w.gone(g) && (g.see_death_behind_bytes || w.tcp.is_empty())
}

/// How the VI's part ends, and how many bytes lie before that.
fn look(vi: Seq) -> (Option<Seen>, u8) {
    let n = (0..vi.len()).find(|&at| vi.get(at) >= TO_TCP);
    let seen = n.map(|at| if vi.get(at) == TO_TCP { Seen::ToTcp } else { Seen::Ended });
    (seen, n.unwrap_or(vi.len()))
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

pub(crate) fn give_up(w: &mut World, g: &Precautions) {
    let keeps = match w.r.retreat {
        RetreatAt::AwaitPumped => g.keep_when_pumped_slowly,
        RetreatAt::AwaitTakenBack => g.keep_when_taken_slowly,
        _ => g.keep_when_impatient,
    };
    match w.r.retreat {
        _ if !keeps => plain(w),
        RetreatAt::Await(n) => w.r.retreat = RetreatAt::Answer(Seen::Impatient, n),
        RetreatAt::AwaitSwitch => w.r.retreat = RetreatAt::Answer(Seen::Impatient, 0),
        _ => keep(w),
    }
}

/// Begins it.
pub(crate) fn begin(w: &mut World, g: &Precautions) {
    if path::recalls(w.r.rx) || !g.recall_what_runs && w.r.rx == Rx::Back {
        w.r.mode = Mode::Retreating;
        w.r.retreat = RetreatAt::Recall;
    } else {
        nothing_to_recall(w, g);
    }
}

/// Its thread goes away.
pub(crate) fn abandon(w: &mut World, g: &Precautions) {
    match w.r.retreat {
        // The thread has ended between returning the bytes and noting it. The next one that takes the lock finishes that.
        RetreatAt::Return if g.finish_return => {
            w.r.rx = Rx::Back;
            keep(w);
        }
        // Nothing but its flag says that there was one, and that has gone once it has returned.
        _ if w.r.mode == Mode::Retreating => w.r.retreat = RetreatAt::Abandoned,
        _ => w.r.retreat = RetreatAt::Not,
    }
}

pub(crate) fn step(w: &mut World, g: &Precautions) {
    w.r.retreat = match w.r.retreat {
        RetreatAt::Recall => {
            w.seen_mut().grant = Grant::Recalled as u64;
            RetreatAt::RecallLook
        }
        RetreatAt::RecallLook if w.far.is_some() => match recalled(w, g) {
            Recalled::Nothing => return nothing_to_recall(w, g),
            Recalled::Claim => RetreatAt::Claim,
            Recalled::Await => RetreatAt::AwaitSwitch,
            Recalled::Drain => RetreatAt::Look,
        },
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
        RetreatAt::Claim => {
            claim(w);
            RetreatAt::RecallLook
        }
        RetreatAt::AwaitSwitch => RetreatAt::RecallLook,
        // A reader has found the rest on the VI meanwhile.
        RetreatAt::AwaitTakenBack | RetreatAt::AwaitPumped if w.r.rx == Rx::Vi => return keep(w),
        RetreatAt::AwaitTakenBack if w.seen().taken_back => return plain(w),
        // The sender has died over it.
        RetreatAt::AwaitTakenBack => return keep(w),
        RetreatAt::Look => match look(w.unread()) {
            (Some(seen), n) => RetreatAt::Answer(seen, n),
            (None, n) => RetreatAt::Await(n),
        },
        // A reader has come to ToTcp meanwhile.
        RetreatAt::Await(_) if !path::recalls(w.r.rx) => return nothing_to_recall(w, g),
        RetreatAt::Await(n) if sees_end(w, g) => RetreatAt::LookAgain(n),
        RetreatAt::Await(_) => RetreatAt::Look,
        RetreatAt::LookAgain(n) if !g.look_at_vi_again => RetreatAt::Answer(Seen::Ended, n),
        RetreatAt::LookAgain(_) => {
            let (seen, n) = look(w.unread());
            RetreatAt::Answer(seen.unwrap_or(Seen::Ended), n)
        }
        RetreatAt::Answer(seen, n) => return answer(w, seen, n, g),
        RetreatAt::AwaitVerdict => return settle(w, g),
        RetreatAt::Return => {
            w.r.rx = Rx::Back;
            w.r.mode = Mode::Library;
            RetreatAt::AwaitPumped
        }
        RetreatAt::AwaitPumped if w.seen().pumped => return plain(w),
        // The sender is no more.
        RetreatAt::AwaitPumped => return keep(w),
        at @ (RetreatAt::Not | RetreatAt::Abandoned) => unreachable!("not retreating: {at:?}"),
    };
}

/// The direction is on TCP, or will be when the sender has put there what it is to put there.
fn nothing_to_recall(w: &mut World, g: &Precautions) {
    match reflected::on_tcp(w.r.rx, &w.known(g)) {
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
    let found = w.seen().returned;
    if found == 0 {
        w.seen_mut().returned = path::answer(seen, n.into());
    }
    let rest = match &w.far {
        Some(far) => match reflected::rest(seen, n.into(), found, far.verdict, far.gone) {
            reflected::Rest::Pending if g.await_verdict => {
                w.r.proposed = true;
                w.r.retreat = RetreatAt::AwaitVerdict;
                return;
            }
            reflected::Rest::Plain => Rest::Plain,
            reflected::Rest::Kept => Rest::Kept,
            reflected::Rest::Returned | reflected::Rest::Pending => Rest::Returned,
        },
        None => path::rest(seen, n.into(), found),
    };
    w.r.proposed = false;
    match rest {
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

/// It is decided what becomes of the bytes, or a reader has come to see that before.
fn settle(w: &mut World, g: &Precautions) {
    let accepted = w.r.proposed && verdict(w, g) == Verdict::Accepted;
    w.r.proposed = false;
    if accepted {
        w.r.retreat = RetreatAt::Return;
    } else if w.r.rx == Rx::Back {
        nothing_to_recall(w, g);
    } else {
        keep(w);
    }
}

/// Claims the switch.
pub(crate) fn claim(w: &mut World) {
    if let Some(far) = &mut w.far {
        far.claimed = true;
    }
}

/// What a recall finds between hosts.
fn recalled(w: &World, g: &Precautions) -> Recalled {
    let Some(far) = &w.far else { return Recalled::Nothing };
    let confirmed = far.confirmed || !g.await_confirmation;
    reflected::recall(w.r.rx, far.words.switch, far.claimed, confirmed, far.gone)
}

/// What has become of bytes that were proposed to be returned.
pub(crate) fn verdict(w: &World, g: &Precautions) -> Verdict {
    let known = w.known(g);
    reflected::verdict(w.seen().returned, known.verdict, known.gone)
}
