//! The state that the NIC keeps for a peer while transfers with the peer are under way.

use crate::Node;
use crate::ids::Ids;
use crate::wire::{Ack, Why};
use core::time::Duration;
use sovia_link::Time;
use sovia_link::stream::{Rtt, Timing};
use sovia_link::wire::EndId;
use std::collections::VecDeque;

/// Congestion window in collections: initial size and maximum.
const FIRST_WINDOW: u32 = 16;
const WINDOW_MAX: u32 = crate::message::WINDOW;
/// Number of later collections that must arrive before the NIC treats an earlier collection as lost.
const PASSED: u8 = 3;

/// A collection that this station has sent and the peer has not acknowledged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flight {
    /// The first descriptor of the message.
    pub(crate) index: u16,
    pub(crate) collection: u32,
    /// Time at which the last frame of the collection was sent.
    pub(crate) sent: Time,
    /// Set if the collection was also sent before.
    pub(crate) is_again: bool,
    /// Number of later collections that have arrived.
    passed: u8,
}

/// A hello without an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asking {
    pub(crate) nonce: u64,
    pub(crate) tries: u32,
    /// Time at which the NIC sends the hello again.
    pub(crate) again: Time,
    /// Name and key of another process that claims the peer's address.
    pub(crate) other: Option<(EndId, u64)>,
}

#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) peer: Node,

    /// Incomplete messages to the peer, in order.
    pub(crate) out: VecDeque<u16>,
    /// Messages of `out` with collections that were never sent, in order. Messages that wait for a receive are not in
    /// the list.
    pub(crate) unsent: VecDeque<u16>,
    /// Unacknowledged collections, in the order in which they were sent.
    pub(crate) flights: VecDeque<Flight>,
    /// Collections that the NIC must send again.
    pub(crate) lost: VecDeque<(u16, u32)>,
    /// Congestion window: maximum number of collections under way.
    pub(crate) window: u32,
    threshold: u32,
    grown: u32,
    /// Time at which the window last shrank.
    reduced: Time,
    pub(crate) rtt: Rtt,
    /// Number of time-outs since the last answer.
    pub(crate) tries: u32,
    /// A random number. It varies the time-outs, so that stations whose frames one full queue dropped do not fill the
    /// queue again together.
    chance: u32,
    /// Messages that wait for a receive of the peer.
    pub(crate) parked: u32,
    /// Time at which the NIC next tries a message that waits for a receive.
    pub(crate) next_park: Option<Time>,

    pub(crate) asking: Option<Asking>,
    /// Time of the last frame from the peer.
    pub(crate) heard: Time,

    /// Messages that arrived before an earlier message.
    pub(crate) done: Ids,
    /// Refused messages. The peer may not have received the refusals yet.
    pub(crate) refused: Vec<(u32, Why)>,
    /// Time at which this station last sent a refusal.
    pub(crate) refused_at: Time,
    /// Receives that messages of the peer have met.
    pub(crate) incoming: Vec<u16>,
    /// The acknowledgement to send.
    pub(crate) ack: Option<Ack>,

    /// Set while the peer is in the engine's list of peers with an acknowledgement to send (`is_owed`), or with data to
    /// send (`is_ready`).
    pub(crate) is_owed: bool,
    pub(crate) is_ready: bool,
    /// The earliest of the engine's timers for this peer.
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

    /// Starts to keep state for a peer. `round_trip` is the last measured round trip, or 0 if none was measured.
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

    /// Returns true if nothing is under way with the peer.
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

    /// Makes a message wait for a receive until `until`. The end of time sets no timer.
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

    /// Removes a collection from the unacknowledged or lost collections. Returns its send time if it measures the round
    /// trip, and `None` if the collection was not found.
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

    /// Records that a collection arrived that was sent after the first `count` flights.
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

    /// Removes all collections of a message.
    pub(crate) fn land_all(&mut self, index: u16) {
        self.flights.retain(|flight| flight.index != index);
        self.lost.retain(|lost| lost.0 != index);
    }

    /// Handles a time-out of the oldest collection: all collections must be sent again.
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

    /// Returns the time at which the oldest collection times out.
    pub(crate) fn times_out(&self, timing: &Timing) -> Option<Time> {
        let first = self.flights.front()?;
        let wait = self.rtt.wait(timing, self.tries);
        Some(first.sent.after(if self.tries > 0 { spread(wait, self.chance) } else { wait }))
    }
}

/// Returns a random duration between half and one and a half of `while_`.
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
        // The collection had only been slow.
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
