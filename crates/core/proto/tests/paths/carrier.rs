//! Two segments and the NICs between them.
//!
//! A NIC sends the sender's events over a channel, and the other NIC publishes them in the receiver's segment. The
//! receiver's events travel back the same way. A NIC may stop for a time between any two steps, and a message may
//! be on its way for any time.

use crate::paths::precautions::Precautions;
use crate::paths::world::{Mode, Shared, World};
use sovia_proto::path::event::{FromReceiver, FromSender};
use sovia_proto::path::{ENTERED, Grant, Returned, Switch};
use std::marker::PhantomData;

/// A message of the NIC at the sender's segment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Forth {
    /// The next item of the VI.
    Item(u8),
    Word(FromSender),
}

/// A message of the NIC at the receiver's segment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Back {
    /// Total number of items of the VI that the receiver has consumed.
    Consumed(u8),
    Word(FromReceiver),
}

/// A message whose number and value fit in one byte that is not 0. So states are cheap to copy and to hash.
trait Packed: Sized {
    fn to_parts(self) -> (u8, u64);
    fn from_parts(number: u8, value: u64) -> Option<Self>;
}

/// Number of the messages that are not words.
const OTHER: u8 = 15;

impl Packed for Forth {
    fn to_parts(self) -> (u8, u64) {
        match self {
            Forth::Item(item) => (OTHER, item.into()),
            Forth::Word(word) => word.to_parts(),
        }
    }

    fn from_parts(number: u8, value: u64) -> Option<Forth> {
        match number {
            OTHER => Some(Forth::Item(value as u8)),
            _ => FromSender::from_parts(number, value).map(Forth::Word),
        }
    }
}

impl Packed for Back {
    fn to_parts(self) -> (u8, u64) {
        match self {
            Back::Consumed(count) => (OTHER, count.into()),
            Back::Word(word) => word.to_parts(),
        }
    }

    fn from_parts(number: u8, value: u64) -> Option<Back> {
        match number {
            OTHER => Some(Back::Consumed(value as u8)),
            _ => FromReceiver::from_parts(number, value).map(Back::Word),
        }
    }
}

/// Messages on their way, in order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Channel<T, const N: usize>([u8; N], PhantomData<T>);

impl<T: Packed, const N: usize> Channel<T, N> {
    const EMPTY: Self = Channel([0; N], PhantomData);

    fn push(&mut self, message: T) {
        let (number, value) = message.to_parts();
        assert!(value < 16, "the model outgrew its messages");
        let place = self.0.iter_mut().find(|place| **place == 0);
        *place.expect("the model outgrew its channel") = number << 4 | value as u8;
    }

    fn pop(&mut self) -> Option<T> {
        let first = self.0[0];
        if first == 0 {
            return None;
        }
        self.0[0] = 0;
        self.0.rotate_left(1);
        Some(T::from_parts(first >> 4, (first & 15).into()).expect("what was packed"))
    }

    fn is_empty(&self) -> bool {
        self.0[0] == 0
    }
}

/// The receiver's segment, and the state between it and the sender's segment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct OtherHost {
    /// The words as the receiver sees them.
    pub(crate) words: Shared,
    /// The receiver has claimed the switch.
    pub(crate) claimed: bool,
    pub(crate) confirmed: bool,
    pub(crate) verdict: u64,
    pub(crate) gone: bool,
    /// Number of items of the VI that the receiver has consumed.
    pub(crate) consumed: u8,
    forth: Channel<Forth, 14>,
    back: Channel<Back, 8>,
    sender: SenderNic,
    receiver: ReceiverNic,
}

/// State that the NIC at the sender's segment has sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct SenderNic {
    switch: u64,
    /// Number of the items in the segment that the NIC has sent.
    items: u8,
    returned: u64,
    taken_back: bool,
    drained: bool,
    gone: bool,
    /// Set while a revoke has arrived that the NIC has not confirmed.
    confirms: bool,
    /// Set while a revoke has arrived that the NIC has not stored. Used only without `revoke_before_look`.
    stores: bool,
    /// Number of consumed items, as far as the NIC knows.
    consumed: u8,
}

/// State that the NIC at the receiver's segment has sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct ReceiverNic {
    grant: u64,
    claimed: bool,
    consumed: u8,
    returned: bool,
}

impl OtherHost {
    pub(crate) fn new() -> OtherHost {
        OtherHost {
            words: Shared::default(),
            claimed: false,
            confirmed: false,
            verdict: 0,
            gone: false,
            consumed: 0,
            forth: Channel::EMPTY,
            back: Channel::EMPTY,
            sender: SenderNic {
                switch: 0,
                items: 0,
                returned: 0,
                taken_back: false,
                drained: false,
                gone: false,
                confirms: false,
                stores: false,
                consumed: 0,
            },
            receiver: ReceiverNic { grant: 0, claimed: false, consumed: 0, returned: false },
        }
    }
}

/// A step of a NIC.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Act {
    /// Acts of the NIC at the sender's segment begin here.
    Claim,
    Switch,
    Item,
    Verdict,
    TakenBack,
    Drained,
    Confirm,
    Store,
    Gone,
    /// Publishes a message from the receiver.
    Receive,
    /// Acts of the NIC at the receiver's segment begin here.
    Grant,
    Claimed,
    Consumed,
    Returned,
    /// Publishes a message from the sender.
    Publish,
}

/// Adds the possible next steps of the NICs. All of them happen by themselves.
pub(crate) fn acts(w: &World, g: &Precautions, mut add: impl FnMut(Act)) {
    let Some(other_host) = &w.other_host else { return };
    let (s, sent) = (&w.shared, &other_host.sender);
    // After the NIC has sent its last event, it has no further part in the direction.
    if !sent.gone {
        let at = matches!(Switch::from_word(s.switch), Switch::At(_));
        let mut can = |act, may: bool| {
            if may {
                add(act);
            }
        };
        let switch = sent.switch == s.switch;
        let cancelled = Switch::from_word(s.switch) == Switch::Cancelled;
        // The sender sets `taken_back` before it tries to cancel. If it could not cancel, the word stays set.
        let items = sent.items == s.vi.len() || cancelled && s.taken_back;
        let verdict = sent.returned == s.returned;
        let taken_back = sent.taken_back == s.taken_back;
        let drained = sent.drained == s.drained;
        let over = w.tcp_end || w.s.mode == Mode::Plain;
        can(Act::Claim, at && !g.receiver_claims);
        can(Act::Switch, !switch && (!at || g.receiver_claims));
        can(Act::Item, !items && sent.switch != 0);
        can(Act::Verdict, !verdict);
        can(Act::TakenBack, !taken_back);
        can(Act::Drained, !drained);
        can(Act::Confirm, sent.confirms && (switch || !g.switch_before_confirmation));
        can(Act::Store, sent.stores && !sent.confirms);
        let all = switch && items && verdict && taken_back && drained && !sent.confirms;
        can(Act::Gone, over && (all || !g.gone_is_last));
        can(Act::Receive, !other_host.back.is_empty());
    }
    let (words, sent) = (&other_host.words, &other_host.receiver);
    let returns = words.returned != 0 && !sent.returned;
    let consumed = sent.consumed == other_host.consumed || !g.consumed_before_returned;
    if w.r.mode != Mode::Gone {
        if words.grant != sent.grant {
            add(Act::Grant);
        }
        if other_host.claimed && !sent.claimed {
            add(Act::Claimed);
        }
        if returns && !consumed {
            add(Act::Consumed);
        }
        if returns && consumed {
            add(Act::Returned);
        }
    }
    if !other_host.forth.is_empty() {
        add(Act::Publish);
    }
}

/// Timing of the NICs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Nics {
    /// A NIC may stop for a time before any step.
    Slow,
    /// A NIC sends each event at once. The message may be on its way for any time.
    Prompt,
}

/// Sends all events that the NICs can send.
pub(crate) fn send_all(w: &mut World, g: &Precautions) {
    loop {
        let mut next = None;
        acts(w, g, |act| {
            if next.is_none() && !matches!(act, Act::Receive | Act::Publish) {
                next = Some(act);
            }
        });
        let Some(act) = next else { return };
        step(w, act, g);
    }
}

/// Carries out the step.
pub(crate) fn step(w: &mut World, act: Act, g: &Precautions) {
    let Some(other_host) = &mut w.other_host else { unreachable!("one segment") };
    let s = &mut w.shared;
    let sent = &mut other_host.sender;
    let word = match act {
        Act::Claim => {
            s.switch |= ENTERED;
            return;
        }
        Act::Switch => {
            sent.switch = s.switch;
            FromSender::of_switch(s.switch, s.from).expect("a switch")
        }
        Act::Item => {
            other_host.forth.push(Forth::Item(s.vi.get(sent.items)));
            sent.items += 1;
            return;
        }
        Act::Verdict => {
            sent.returned = s.returned;
            FromSender::of_returned(s.returned).expect("an answer")
        }
        Act::TakenBack => {
            sent.taken_back = true;
            FromSender::TakenBack
        }
        Act::Drained => {
            sent.drained = true;
            FromSender::Drained
        }
        Act::Confirm => {
            sent.confirms = false;
            FromSender::Confirmed
        }
        Act::Store => {
            sent.stores = false;
            s.grant = Grant::Revoked as u64;
            return;
        }
        Act::Gone => {
            sent.gone = true;
            FromSender::Gone
        }
        Act::Receive => return receive(s, other_host, g),
        Act::Publish => return publish(other_host),
        Act::Grant | Act::Claimed | Act::Consumed | Act::Returned => {
            return send_to_sender(other_host, act);
        }
    };
    other_host.forth.push(Forth::Word(word));
}

/// Sends an event from the receiver's segment.
fn send_to_sender(other_host: &mut OtherHost, act: Act) {
    let sent = &mut other_host.receiver;
    other_host.back.push(match act {
        Act::Grant => {
            sent.grant = other_host.words.grant;
            Back::Word(match Grant::from_word(sent.grant) {
                Grant::Revoked => FromReceiver::Revoked,
                Grant::Entered => FromReceiver::Entered,
                _ => FromReceiver::Granted,
            })
        }
        Act::Claimed => {
            sent.claimed = true;
            Back::Word(FromReceiver::Claimed)
        }
        Act::Consumed => {
            sent.consumed = other_host.consumed;
            Back::Consumed(sent.consumed)
        }
        _ => {
            sent.returned = true;
            match Returned::from_word(other_host.words.returned) {
                Returned::Bytes(n) => Back::Word(FromReceiver::Returned(n)),
                _ => unreachable!("a receiver does not refuse"),
            }
        }
    });
}

/// Applies the next message from the receiver at the sender's segment.
fn receive(s: &mut Shared, other_host: &mut OtherHost, g: &Precautions) {
    let sent = &mut other_host.sender;
    match other_host.back.pop().expect("a message") {
        Back::Consumed(n) => {
            for _ in sent.consumed..n {
                s.vi.pop();
                sent.items -= 1;
            }
            sent.consumed = n;
        }
        Back::Word(FromReceiver::Granted) => s.grant = Grant::Granted as u64,
        Back::Word(FromReceiver::Entered) => s.grant = Grant::Entered as u64,
        Back::Word(FromReceiver::Revoked) => {
            sent.confirms = true;
            sent.stores = !g.revoke_before_look;
            if g.revoke_before_look {
                s.grant = Grant::Revoked as u64;
            }
        }
        Back::Word(FromReceiver::Claimed) => {
            if let Switch::At(_) = Switch::from_word(s.switch) {
                s.switch |= ENTERED;
            }
        }
        Back::Word(FromReceiver::Returned(n)) => {
            if s.returned == 0 {
                s.returned = sovia_proto::path::returned_word(n);
            }
        }
        Back::Word(FromReceiver::Left | FromReceiver::Shut) => unreachable!("not of this model"),
    }
}

/// Publishes the next message from the sender in the receiver's segment.
fn publish(other_host: &mut OtherHost) {
    let word = match other_host.forth.pop().expect("a message") {
        Forth::Item(item) => return other_host.words.vi.push(item),
        Forth::Word(word) => word,
    };
    if let Some((switch, from)) = word.switch() {
        (other_host.words.switch, other_host.words.from) = (switch, from);
    }
    if let Some(verdict) = word.verdict() {
        other_host.verdict = verdict;
    }
    match word {
        FromSender::TakenBack => other_host.words.taken_back = true,
        FromSender::Drained => other_host.words.drained = true,
        FromSender::Confirmed => other_host.confirmed = true,
        FromSender::Gone => other_host.gone = true,
        _ => {}
    }
}
