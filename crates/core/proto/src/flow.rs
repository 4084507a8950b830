//! The sliding window and delayed acknowledgements (ICS section 4.2).
//!
//! A sender may have `w` data packets unacknowledged. When the program has consumed a packet, the receiver counts
//! one owed acknowledgement. The owed acknowledgements travel on the receiver's next data packet. As soon as `t`
//! acknowledgements are owed, they travel in a packet of their own.
//!
//! So at most `w` data packets and `w / t` acknowledgements can be on their way to an end. Each end must have
//! posted receives for all these packets. It posts three more receives for FIN, FINACK and a change of path,
//! because these packets do not wait for the window.

use crate::Violation;
use crate::packet::{Immediate, Kind};

/// Window and threshold of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Parameters {
    /// Window `w`: number of data packets that may be unacknowledged.
    pub window: u16,
    /// Threshold `t`: number of owed acknowledgements at which an end sends a packet for them alone.
    pub threshold: u16,
}

/// Parameters of the papers' configuration SOVIA_DACKS.
pub const DACKS: Parameters = Parameters { window: 32, threshold: 16 };

impl Parameters {
    /// Number of receives that each end keeps posted: `w + w / t`, one each for FIN and FINACK, and one for ToTcp
    /// or WAKEUP. A stream uses either ToTcp or WAKEUP, never both.
    pub const fn receives(self) -> u16 {
        self.window + self.window.div_ceil(self.threshold) + 3
    }
}

/// Counts of one end's packets and acknowledgements.
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
/// // The program consumes both packets. Then the receiver must send a packet for the acknowledgements.
/// assert!(!receiver.consumed());
/// assert!(receiver.consumed());
/// sender.arrived(receiver.send(Kind::Ack))?;
/// assert_eq!(sender.unacked(), 0);
/// # Ok::<(), sovia_proto::Violation>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Flow {
    // The fields have 32 bits, although 16 bits suffice. Two adjacent 16-bit fields could be loaded by one
    // instruction. This load would wait until recent stores to each of the two fields are complete.
    window: u32,
    /// Window of the peer.
    allowed: u32,
    threshold: u32,
    /// Number of data packets sent and not yet acknowledged.
    unacked: u32,
    /// Number of data packets consumed and not yet acknowledged to the peer.
    owed: u32,
    /// Number of data packets that have arrived and are not yet consumed.
    held: u32,
}

impl Flow {
    /// Returns the counts of an end that has sent and received nothing, and whose peer has the same window.
    pub const fn new(parameters: Parameters) -> Flow {
        let (window, threshold) = (parameters.window as u32, parameters.threshold as u32);
        Flow { window, allowed: window, threshold, unacked: 0, owed: 0, held: 0 }
    }

    /// Sets the peer's window. If this end's threshold is larger, lowers it to the peer's window. The peer would
    /// never send enough packets to reach a larger threshold.
    pub const fn face(&mut self, window: u16) {
        self.allowed = if window == 0 { 1 } else { window as u32 };
        if self.threshold > self.allowed {
            self.threshold = self.allowed;
        }
    }

    /// Sets the number of data packets that may be unacknowledged from now on. If `window` is 0, the end may send
    /// no data packet.
    pub const fn narrow(&mut self, window: u16) {
        self.window = window as u32;
    }

    /// Returns the window in packets.
    pub const fn window(&self) -> u16 {
        self.window as u16
    }

    /// Returns true if the window has room for a data packet.
    #[inline]
    pub const fn can_send(&self) -> bool {
        self.unacked < self.window
    }

    /// Returns the number of unacknowledged data packets.
    #[inline]
    pub const fn unacked(&self) -> u16 {
        self.unacked as u16
    }

    /// Returns the number of data packets that have arrived and that the program has not consumed.
    #[inline]
    pub const fn held(&self) -> u16 {
        self.held as u16
    }

    /// Counts a packet that is sent now, and returns its immediate data. The packet carries all owed
    /// acknowledgements.
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

    /// Undoes the last [`Flow::send`], because the packet could not be sent.
    #[inline]
    pub const fn unsend(&mut self, packet: Immediate) {
        if matches!(packet.kind, Kind::Data) {
            self.unacked -= 1;
        }
        self.owed = packet.acks as u32;
    }

    /// Counts a packet that has arrived.
    ///
    /// # Errors
    /// [`Violation`] if the packet acknowledges packets that were not sent, or if the peer has exceeded the window.
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

    /// Counts a data packet that the program has consumed. Returns true if the end must now send a packet for the
    /// owed acknowledgements.
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
    fn window_closes_and_acknowledgements_reopen_the_window() {
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
        // The program has consumed the packet, but this end has not acknowledged it. So the packet still occupies
        // the peer's window.
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
        // The peer's window may also be larger than this end's.
        let mut receiver = Flow::new(Parameters { window: 1, threshold: 1 });
        receiver.face(32);
        (0..32).for_each(|_| receiver.arrived(DATA).unwrap());
        assert!(receiver.arrived(DATA).is_err());
    }

    /// Two ends that follow the protocol, and the packets on their way.
    #[derive(Clone, PartialEq, Eq, Hash)]
    struct Ends {
        flows: [Flow; 2],
        /// Packets on their way to the end with this index.
        coming: [VecDeque<(Kind, u16)>; 2],
    }

    impl Ends {
        fn send(&mut self, from: usize, kind: Kind) {
            let Immediate { kind, acks } = self.flows[from].send(kind);
            self.coming[1 - from].push_back((kind, acks));
        }

        /// Returns the state after each possible next event.
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

    /// Tries every order of events between two ends with small windows. No end reports a violation, and the posted
    /// receives cover all packets on their way. If no packet is on its way or held, both ends may send.
    #[test]
    fn no_order_of_events_violates_or_stalls_the_protocol() {
        let parameters =
            |window| (1..=window).map(move |threshold| Parameters { window, threshold });
        let all: Vec<_> = (1..=3).flat_map(parameters).collect();
        for (&a, &b) in all.iter().flat_map(|a| all.iter().map(move |b| (a, b))) {
            let mut flows = [Flow::new(a), Flow::new(b)];
            flows[0].face(b.window);
            flows[1].face(a.window);
            // Number of receives that each end posts. It covers all packets that the other end may send.
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
