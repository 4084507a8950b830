//! The sliding window and delayed acknowledgements (ICS section 4.2).
//!
//! A sender may have `w` data packets unacknowledged. The receiver acknowledges a packet once the
//! program has consumed it, and only counts at first: what it owes rides on its own next data
//! packet, or goes alone as soon as `t` are owed. At most `w` data packets and `w / t`
//! acknowledgements can then be on their way to a node, which is how many receives it must have
//! posted (plus a FIN, a FINACK and a switch of path, which no window holds back).

use crate::Violation;
use crate::packet::{Immediate, Kind};

/// The two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Parameters {
    /// Window `w`: unacknowledged data packets allowed.
    pub window: u16,
    /// Threshold `t`: owed acknowledgements that are sent alone.
    pub threshold: u16,
}

/// The papers' choice for all but their simplest configurations.
pub const DACKS: Parameters = Parameters { window: 32, threshold: 16 };

impl Parameters {
    /// Receives that each end keeps posted: `w + w / t`, and one each for FIN, FINACK, and ToTcp or
    /// WAKEUP, of which a stream has one or the other.
    pub const fn receives(self) -> u16 {
        self.window + self.window.div_ceil(self.threshold) + 3
    }
}

/// One end's counts.
///
/// ```
/// use sovia_proto::flow::{Flow, Parameters};
/// use sovia_proto::packet::Kind;
///
/// let parameters = Parameters { window: 2, threshold: 2 };
/// let (mut sender, mut receiver) = (Flow::new(parameters), Flow::new(parameters));
/// while sender.can_send() {
///     receiver.arrived(sender.send(Kind::Data))?;
/// }
/// assert_eq!((sender.unacked(), receiver.held()), (2, 2));
///
/// // The program consumes both packets; then acknowledgements are to go alone.
/// assert!(!receiver.consumed());
/// assert!(receiver.consumed());
/// sender.arrived(receiver.send(Kind::Ack))?;
/// assert_eq!(sender.unacked(), 0);
/// # Ok::<(), sovia_proto::Violation>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Flow {
    // As wide as a load of the processor: it loads narrower neighbours together, and waits for each that was just stored.
    window: u32,
    /// The peer's window.
    allowed: u32,
    threshold: u32,
    /// Data packets sent and not yet acknowledged.
    unacked: u32,
    /// Data packets consumed and not yet acknowledged to the peer.
    owed: u32,
    /// Data packets arrived and not yet consumed.
    held: u32,
}

impl Flow {
    /// An end with nothing on its way, whose peer has the same window.
    pub const fn new(parameters: Parameters) -> Flow {
        let (window, threshold) = (parameters.window as u32, parameters.threshold as u32);
        Flow { window, allowed: window, threshold, unacked: 0, owed: 0, held: 0 }
    }

    /// The peer's window is another one. A threshold beyond it would never be reached.
    pub const fn face(&mut self, window: u16) {
        self.allowed = if window == 0 { 1 } else { window as u32 };
        if self.threshold > self.allowed {
            self.threshold = self.allowed;
        }
    }

    /// From now on so many data packets may be unacknowledged; none at all for 0.
    pub const fn narrow(&mut self, window: u16) {
        self.window = window as u32;
    }

    /// The window.
    pub const fn window(&self) -> u16 {
        self.window as u16
    }

    /// Whether the window has room for a data packet.
    #[inline]
    pub const fn can_send(&self) -> bool {
        self.unacked < self.window
    }

    /// How much of the window is in use.
    #[inline]
    pub const fn unacked(&self) -> u16 {
        self.unacked as u16
    }

    /// Data packets that have arrived and wait for the program.
    #[inline]
    pub const fn held(&self) -> u16 {
        self.held as u16
    }

    /// The immediate data of a packet that is sent now. Whatever is owed rides along.
    #[inline]
    pub const fn send(&mut self, kind: Kind) -> Immediate {
        debug_assert!(self.can_send() || !matches!(kind, Kind::Data));
        if matches!(kind, Kind::Data) {
            self.unacked += 1;
        }
        let acks = self.owed as u16;
        self.owed = 0;
        Immediate { kind, acks }
    }

    /// The packet of the last [`Flow::send`] could not be sent.
    #[inline]
    pub const fn unsend(&mut self, packet: Immediate) {
        if matches!(packet.kind, Kind::Data) {
            self.unacked -= 1;
        }
        self.owed = packet.acks as u32;
    }

    /// A packet has arrived.
    ///
    /// # Errors
    /// [`Violation`] for acknowledgements of what was not sent, and for more data than the window
    /// allows.
    #[inline]
    pub const fn arrived(&mut self, packet: Immediate) -> Result<(), Violation> {
        let acks = packet.acks as u32;
        if acks > self.unacked {
            return Err(Violation("acknowledges more than was sent"));
        }
        self.unacked -= acks;
        if matches!(packet.kind, Kind::Data) {
            if self.held + self.owed >= self.allowed {
                return Err(Violation("sends beyond the window"));
            }
            self.held += 1;
        }
        Ok(())
    }

    /// The program has consumed a data packet. True when acknowledgements must go out alone.
    #[inline]
    pub const fn consumed(&mut self) -> bool {
        self.held = self.held.saturating_sub(1);
        self.owed += 1;
        self.owed >= self.threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashSet, VecDeque};
    use std::vec::Vec;

    const DATA: Immediate = Immediate { kind: Kind::Data, acks: 0 };

    #[test]
    fn the_window_closes_and_acknowledgements_open_it() {
        let mut flow = Flow::new(Parameters { window: 2, threshold: 2 });
        flow.send(Kind::Data);
        assert!(flow.can_send());
        flow.send(Kind::Data);
        assert!(!flow.can_send());
        flow.arrived(Immediate { kind: Kind::Ack, acks: 1 }).unwrap();
        assert!(flow.can_send());
        assert_eq!(flow.unacked(), 1);
    }

    #[test]
    fn owed_acknowledgements_go_alone_at_the_threshold_or_ride_along() {
        let mut flow = Flow::new(DACKS);
        for n in 1..=16 {
            flow.arrived(DATA).unwrap();
            assert_eq!(flow.held(), 1);
            assert_eq!(flow.consumed(), n == 16);
        }
        assert_eq!(flow.send(Kind::Ack).acks, 16);
        flow.arrived(DATA).unwrap();
        assert!(!flow.consumed());
        assert_eq!(flow.send(Kind::Data).acks, 1);
        assert_eq!(flow.send(Kind::Fin).acks, 0);
    }

    #[test]
    fn what_could_not_be_sent_leaves_the_counts_as_they_were() {
        let mut flow = Flow::new(DACKS);
        flow.arrived(DATA).unwrap();
        flow.consumed();
        let before = flow;
        for kind in [Kind::Data, Kind::Ack] {
            let packet = flow.send(kind);
            assert_eq!(packet.acks, 1);
            flow.unsend(packet);
            assert_eq!(flow, before);
        }
    }

    #[test]
    fn a_peer_cannot_acknowledge_or_send_more_than_the_window() {
        let mut flow = Flow::new(Parameters { window: 1, threshold: 1 });
        assert!(flow.arrived(Immediate { kind: Kind::Ack, acks: 1 }).is_err());
        flow.arrived(DATA).unwrap();
        assert!(flow.arrived(DATA).is_err());
        // Consumed and not yet acknowledged: the peer's window is still used up.
        flow.consumed();
        assert!(flow.arrived(DATA).is_err());
        flow.send(Kind::Ack);
        flow.arrived(DATA).unwrap();
    }

    #[test]
    fn ends_with_different_windows_get_along() {
        let mut receiver = Flow::new(DACKS);
        receiver.face(2);
        receiver.arrived(DATA).unwrap();
        receiver.arrived(DATA).unwrap();
        assert!(receiver.arrived(DATA).is_err());
        assert!(!receiver.consumed());
        assert!(receiver.consumed(), "the sender waits for these two");
        // And a larger one than its own.
        let mut receiver = Flow::new(Parameters { window: 1, threshold: 1 });
        receiver.face(32);
        (0..32).for_each(|_| receiver.arrived(DATA).unwrap());
        assert!(receiver.arrived(DATA).is_err());
    }

    /// Two honest ends and what is on its way between them.
    #[derive(Clone, PartialEq, Eq, Hash)]
    struct Ends {
        flows: [Flow; 2],
        /// To the end of that number.
        coming: [VecDeque<(Kind, u16)>; 2],
    }

    impl Ends {
        fn send(&mut self, from: usize, kind: Kind) {
            let Immediate { kind, acks } = self.flows[from].send(kind);
            self.coming[1 - from].push_back((kind, acks));
        }

        /// Everything that may happen next.
        fn next(&self) -> Vec<Ends> {
            let mut all = Vec::new();
            for end in [0, 1] {
                if self.flows[end].can_send() {
                    let mut next = self.clone();
                    next.send(end, Kind::Data);
                    all.push(next);
                }
                if let Some(&(kind, acks)) = self.coming[end].front() {
                    let mut next = self.clone();
                    next.coming[end].pop_front();
                    let arrived = next.flows[end].arrived(Immediate { kind, acks });
                    arrived.expect("the peer is honest");
                    all.push(next);
                }
                if self.flows[end].held() > 0 {
                    let mut next = self.clone();
                    if next.flows[end].consumed() {
                        next.send(end, Kind::Ack);
                    }
                    all.push(next);
                }
            }
            all
        }
    }

    /// Every order of events between two ends with small windows: neither takes the other for a liar, what is on its
    /// way fits the receives, and where nothing is on its way or held, both may send.
    #[test]
    fn no_order_of_events_breaks_the_protocol_or_stops_it() {
        let parameters =
            |window| (1..=window).map(move |threshold| Parameters { window, threshold });
        let all: Vec<_> = (1..=3).flat_map(parameters).collect();
        for (&a, &b) in all.iter().flat_map(|a| all.iter().map(move |b| (a, b))) {
            let mut flows = [Flow::new(a), Flow::new(b)];
            flows[0].face(b.window);
            flows[1].face(a.window);
            // What two ends agree on: the receives of each cover what the other one may send.
            let receives = [b, a].map(|peer| peer.window + a.window.max(b.window) + 3);
            let mut known = HashSet::from([Ends { flows, coming: Default::default() }]);
            let mut open: Vec<_> = known.iter().cloned().collect();
            while let Some(ends) = open.pop() {
                for end in [0, 1] {
                    assert!(ends.coming[end].len() <= usize::from(receives[end]));
                }
                let quiet = ends.coming.iter().all(VecDeque::is_empty)
                    && ends.flows.iter().all(|flow| flow.held() == 0);
                assert!(!quiet || ends.flows.iter().all(Flow::can_send), "{:?}", ends.flows);
                open.extend(ends.next().into_iter().filter(|next| known.insert(next.clone())));
            }
            assert!(known.len() > 10);
        }
    }

    #[test]
    fn receives_cover_the_window_its_acknowledgements_and_the_rest() {
        assert_eq!(DACKS.receives(), 32 + 2 + 3);
        assert_eq!(Parameters { window: 5, threshold: 3 }.receives(), 5 + 2 + 3);
    }
}
