//! What the NIC keeps of a peer while something is under way with it.

use crate::Node;
use crate::ids::Ids;
use crate::wire::{Ack, Why};
use core::time::Duration;
use sovia_link::Time;
use sovia_link::stream::{Rtt, Timing};
use sovia_link::wire::EndId;
use std::collections::VecDeque;

/// Collections that may be on their way to a peer at first, and at most.
const FIRST_WINDOW: u32 = 16;
const WINDOW_MAX: u32 = crate::message::WINDOW;
/// Collections that were sent later and have come, after which one that has not is taken for lost.
const PASSED: u8 = 3;

/// A collection that has been sent and not acknowledged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flight {
    /// The message's descriptor.
    pub(crate) index: u16,
    pub(crate) collection: u32,
    /// When its last frame left.
    pub(crate) sent: Time,
    /// It was sent before.
    pub(crate) is_again: bool,
    /// Collections behind it that have come.
    passed: u8,
}

/// A hello that has not been answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asking {
    pub(crate) nonce: u64,
    pub(crate) tries: u32,
    /// When it is sent again.
    pub(crate) again: Time,
    /// The name and the key of another process that says that it is there.
    pub(crate) other: Option<(EndId, u64)>,
}

#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) peer: Node,

    /// Messages to the peer that are not complete, in their order.
    pub(crate) out: VecDeque<u16>,
    /// Those of them that have collections which were never sent, and do not wait for a receive; in their order.
    pub(crate) unsent: VecDeque<u16>,
    /// In the order in which they were sent.
    pub(crate) flights: VecDeque<Flight>,
    /// Collections that are to be sent again.
    pub(crate) lost: VecDeque<(u16, u32)>,
    /// Collections that may be on their way.
    pub(crate) window: u32,
    threshold: u32,
    grown: u32,
    /// When the window last became smaller.
    reduced: Time,
    pub(crate) rtt: Rtt,
    /// Time-outs since an answer came.
    pub(crate) tries: u32,
    /// By chance, so that stations which have lost frames to one full queue do not fill it again together.
    chance: u32,
    /// Messages that wait for a receive.
    pub(crate) parked: u32,
    /// When the first message that waits for a receive is tried again.
    pub(crate) next_park: Option<Time>,

    pub(crate) asking: Option<Asking>,
    /// When the peer was heard of last.
    pub(crate) heard: Time,

    /// Messages that have come before one that has not.
    pub(crate) done: Ids,
    /// Messages that are refused, as long as the peer may not know it.
    pub(crate) refused: Vec<(u32, Why)>,
    /// When that was last said.
    pub(crate) refused_at: Time,
    /// The receives that messages of the peer have met.
    pub(crate) incoming: Vec<u16>,
    /// What is to be acknowledged.
    pub(crate) ack: Option<Ack>,

    /// It stands in the engine's list of those that have something to acknowledge, and of those that may send.
    pub(crate) is_owed: bool,
    pub(crate) is_ready: bool,
    /// The earliest timer of the engine's that is set for it.
    pub(crate) armed: Option<Time>,
}

impl Active {
    pub(crate) fn new() -> Active {
        Active {
            peer: Node::MAX,
            out: VecDeque::new(),
            unsent: VecDeque::new(),
            flights: VecDeque::new(),
            lost: VecDeque::new(),
            window: FIRST_WINDOW,
            threshold: WINDOW_MAX,
            grown: 0,
            reduced: Time::ZERO,
            rtt: Rtt::new(),
            tries: 0,
            chance: 0,
            parked: 0,
            next_park: None,
            asking: None,
            heard: Time::ZERO,
            done: Ids::new(),
            refused: Vec::new(),
            refused_at: Time::ZERO,
            incoming: Vec::new(),
            ack: None,
            is_owed: false,
            is_ready: false,
            armed: None,
        }
    }

    /// Begins with a peer whose round trip was that long; 0: not measured. Nothing is under way of the one before.
    pub(crate) fn begin(&mut self, peer: Node, round_trip: u32, now: Time) {
        self.peer = peer;
        (self.window, self.threshold, self.grown) = (FIRST_WINDOW, WINDOW_MAX, 0);
        (self.reduced, self.refused_at, self.heard) = (Time::ZERO, Time::ZERO, now);
        (self.tries, self.next_park) = (0, None);
        self.rtt = Rtt::new();
        if round_trip > 0 {
            self.rtt.measured(round_trip.into(), now);
        }
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.out.is_empty()
            && self.incoming.is_empty()
            && self.ack.is_none()
            && self.asking.is_none()
            && self.done.is_empty()
            && self.refused.is_empty()
            && !(self.is_owed || self.is_ready)
    }

    pub(crate) fn is_refused(&self, id: u32) -> Option<Why> {
        self.refused.iter().find(|refused| refused.0 == id).map(|refused| refused.1)
    }

    /// A message waits for a receive until then; until the end of time there is no timer.
    pub(crate) fn wait_until(&mut self, until: Time) {
        if until.nanos() < u64::MAX {
            self.next_park = Some(self.next_park.map_or(until, |next| next.min(until)));
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.flights.len() < self.window as usize
    }

    pub(crate) fn sent(&mut self, index: u16, collection: u32, is_again: bool, now: Time) {
        self.flights.push_back(Flight { index, collection, sent: now, is_again, passed: 0 });
    }

    /// Takes the flight of a collection away, wherever it is; with its time if that tells the round trip, `None` if there is none.
    pub(crate) fn land(&mut self, index: u16, collection: u32) -> Option<Option<Time>> {
        let is_it = |flight: &Flight| flight.index == index && flight.collection == collection;
        if let Some(place) = self.flights.iter().position(is_it) {
            let flight = self.flights.remove(place)?;
            self.grow();
            self.pass(place);
            return Some((!flight.is_again).then_some(flight.sent));
        }
        let place = self.lost.iter().position(|&lost| lost == (index, collection))?;
        self.lost.remove(place);
        Some(None)
    }

    /// Something that was sent behind the first `count` flights has come.
    pub(crate) fn pass(&mut self, count: usize) {
        let count = count.min(self.flights.len());
        self.flights.iter_mut().take(count).for_each(|flight| {
            flight.passed = flight.passed.saturating_add(1);
        });
        while self.flights.front().is_some_and(|flight| flight.passed >= PASSED) {
            let Some(flight) = self.flights.pop_front() else { break };
            self.lost.push_back((flight.index, flight.collection));
            if flight.sent > self.reduced {
                self.shrink();
                self.window = self.threshold;
                self.reduced = self.flights.back().map_or(flight.sent, |last| last.sent);
            }
        }
    }

    /// Takes all flights of a message away.
    pub(crate) fn land_all(&mut self, index: u16) {
        self.flights.retain(|flight| flight.index != index);
        self.lost.retain(|lost| lost.0 != index);
    }

    /// The first collection has been awaited too long: everything is to be sent again.
    pub(crate) fn time_out(&mut self, chance: u32) {
        self.tries += 1;
        self.chance = chance;
        self.shrink();
        self.window = 1;
        self.lost.extend(self.flights.drain(..).map(|flight| (flight.index, flight.collection)));
    }

    fn grow(&mut self) {
        if self.window < self.threshold {
            self.window += 1;
        } else {
            self.grown += 1;
            if self.grown >= self.window {
                (self.grown, self.window) = (0, self.window + 1);
            }
        }
        self.window = self.window.min(WINDOW_MAX);
    }

    fn shrink(&mut self) {
        self.threshold = (self.window / 2).max(2);
        self.grown = 0;
    }

    /// When the collection that was sent first has been awaited too long.
    pub(crate) fn times_out(&self, timing: &Timing) -> Option<Time> {
        let first = self.flights.front()?;
        let wait = self.rtt.wait(timing, self.tries);
        Some(first.sent.after(if self.tries > 0 { spread(wait, self.chance) } else { wait }))
    }
}

/// A while between half and one and a half of that, by chance.
pub(crate) fn spread(while_: Duration, chance: u32) -> Duration {
    while_ / 2 + while_.mul_f64(f64::from(chance) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn active() -> Active {
        let mut active = Active::new();
        active.begin(1, 0, Time::ZERO);
        active
    }

    fn at(micros: u64) -> Time {
        Time::from_nanos(micros * 1000)
    }

    #[test]
    fn a_collection_that_three_later_ones_have_passed_is_lost() {
        let mut active = active();
        for collection in 0..6 {
            active.sent(7, collection, false, at(1 + u64::from(collection)));
        }
        assert_eq!(active.land(7, 1), Some(Some(at(2))));
        assert_eq!(active.land(7, 2), Some(Some(at(3))));
        assert!(active.lost.is_empty());
        let window = active.window;
        assert_eq!(active.land(7, 3), Some(Some(at(4))));
        assert_eq!(active.lost, [(7, 0)]);
        assert!(active.window < window);
        // It had only been slow.
        assert_eq!(active.land(7, 0), Some(None));
        assert_eq!(active.land(7, 0), None);
    }

    #[test]
    fn a_time_out_takes_everything_for_lost_and_begins_with_one() {
        let mut active = active();
        (0..6).for_each(|collection| active.sent(7, collection, false, at(1)));
        active.time_out(0);
        assert_eq!((active.window, active.lost.len(), active.flights.len()), (1, 6, 0));
        active.sent(7, 0, true, at(9));
        assert!(!active.has_room());
        assert_eq!(active.land(7, 0), Some(None), "a second sending tells no round trip");
        assert_eq!(active.window, 2);
    }
}
