//! Sets of packets that packet filters may block. The agent reports such a set to programs (`sovia run
//! --respect-filters`).
//!
//! A [`Flow`] describes packets by ranges of source and destination ports. It concerns packets between two programs
//! of one network namespace. [`Flows`] is a set of packets, described by flows.

use alloc::vec::Vec;

/// Path at which programs find the agent that watches filters.
pub const PATH: &str = "/run/sovia/filters";

/// Largest number of flows in a set. A set that needs more becomes the set of all packets.
const FLOWS_MAX: usize = 64;
/// Length of a message's head in bytes. The flows follow, with `FLOW` bytes each.
const HEAD: usize = 8;
const FLOW: usize = 8;
/// Length of the longest message in bytes.
pub const MESSAGE_MAX: usize = HEAD + FLOWS_MAX * FLOW;
const MAGIC: [u8; HEAD] = *b"SOVIAFI1";

/// A range of ports, including its first and last port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ports {
    /// The lowest port.
    pub first: u16,
    /// The highest port, at least `first`.
    pub last: u16,
}

impl Ports {
    /// All ports.
    pub const ALL: Ports = Ports { first: 0, last: u16::MAX };

    fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    fn includes(self, other: Ports) -> bool {
        self.contains(other.first) && self.contains(other.last)
    }
}

/// Packets from a range of ports to a range of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// Ports of the sender.
    pub source: Ports,
    /// Ports of the receiver.
    pub destination: Ports,
}

/// Port of a packet that a filter's rule checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The sender's port.
    Source,
    /// The receiver's port.
    Destination,
}

impl Flow {
    /// All packets.
    pub const ALL: Flow = Flow { source: Ports::ALL, destination: Ports::ALL };

    fn ports(self, side: Side) -> Ports {
        match side {
            Side::Source => self.source,
            Side::Destination => self.destination,
        }
    }

    fn with(self, side: Side, first: u16, last: u16) -> Flow {
        let ports = Ports { first, last };
        match side {
            Side::Source => Flow { source: ports, ..self },
            Side::Destination => Flow { destination: ports, ..self },
        }
    }

    fn includes(self, other: Flow) -> bool {
        self.source.includes(other.source) && self.destination.includes(other.destination)
    }
}

/// A set of packets. The set always holds all packets that the caller has added. To stay small, it may also hold
/// others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Flows(Vec<Flow>);

impl Flows {
    /// The empty set.
    pub const NONE: Flows = Flows(Vec::new());

    /// The set of all packets.
    pub fn all() -> Flows {
        Flows([Flow::ALL].into())
    }

    /// Returns true if no packet is in the set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if a packet of a connection between these ports may be in the set, in either direction.
    pub fn concern(&self, one: u16, other: u16) -> bool {
        let between = |source, destination| {
            move |flow: &Flow| {
                flow.source.contains(source) && flow.destination.contains(destination)
            }
        };
        self.0.iter().any(between(one, other)) || self.0.iter().any(between(other, one))
    }

    /// Adds the packets of a flow.
    pub fn add(&mut self, flow: Flow) {
        if self.0.iter().any(|known| known.includes(flow)) {
            return;
        }
        self.0.retain(|known| !flow.includes(*known));
        if self.0.len() == FLOWS_MAX {
            self.0.clear();
            self.0.push(Flow::ALL);
        } else {
            self.0.push(flow);
        }
    }

    /// Adds the packets of another set.
    pub fn add_all(&mut self, flows: &Flows) {
        flows.0.iter().for_each(|flow| self.add(*flow));
    }

    /// Divides the set in two: first the packets whose port on `side` is in one of the ranges, then all other
    /// packets.
    pub fn split(&self, side: Side, ranges: &[Ports]) -> (Flows, Flows) {
        let mut sorted = Vec::from(ranges);
        sorted.sort_unstable();
        sorted.dedup_by(|next, last| {
            let joins = next.first <= last.last.saturating_add(1);
            last.last = if joins { last.last.max(next.last) } else { last.last };
            joins
        });
        let (mut inside, mut outside) = (Flows::NONE, Flows::NONE);
        for flow in &self.0 {
            let Ports { first, last } = flow.ports(side);
            // First port of the flow that is not in `inside` or `outside` yet. `None` after the flow's last port.
            let mut next = Some(first);
            for range in &sorted {
                let Some(from) = next.filter(|&from| range.first <= last && range.last >= from)
                else {
                    continue;
                };
                if range.first > from {
                    outside.add(flow.with(side, from, range.first - 1));
                }
                let to = range.last.min(last);
                inside.add(flow.with(side, range.first.max(from), to));
                next = to.checked_add(1).filter(|&port| port <= last);
            }
            if let Some(from) = next {
                outside.add(flow.with(side, from, last));
            }
        }
        (inside, outside)
    }

    /// Returns the message by which an agent reports the set.
    pub fn encode(&self) -> Vec<u8> {
        let mut message = Vec::from(MAGIC);
        for Flow { source, destination } in &self.0 {
            for port in [source.first, source.last, destination.first, destination.last] {
                message.extend(port.to_le_bytes());
            }
        }
        message
    }

    /// Decodes a message from [`Flows::encode`]. Returns `None` for any other bytes.
    pub fn decode(message: &[u8]) -> Option<Flows> {
        let bytes = message.strip_prefix(&MAGIC)?;
        let (flows, []) = bytes.as_chunks::<FLOW>() else { return None };
        if flows.len() > FLOWS_MAX {
            return None;
        }
        let mut set = Flows::NONE;
        for bytes in flows {
            let port = |i: usize| u16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]);
            let ports = |i: usize| {
                let ports = Ports { first: port(i), last: port(i + 1) };
                (ports.first <= ports.last).then_some(ports)
            };
            set.add(Flow { source: ports(0)?, destination: ports(2)? });
        }
        Some(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(first: u16, last: u16) -> Ports {
        Ports { first, last }
    }

    #[test]
    fn a_connection_is_concerned_if_a_packet_of_either_direction_may_be_stopped() {
        let mut set = Flows::NONE;
        assert!(!set.concern(40_000, 80));
        set.add(Flow { source: Ports::ALL, destination: ports(80, 81) });
        assert!(set.concern(40_000, 80) && set.concern(81, 40_000));
        assert!(!set.concern(40_000, 82));
        assert!(Flows::all().concern(0, u16::MAX));
    }

    #[test]
    fn a_set_is_divided_by_ports_without_loss_or_overlap() {
        let ranges = [ports(100, 200), ports(0, 0), ports(150, 300), ports(65_535, 65_535)];
        let (inside, outside) = Flows::all().split(Side::Destination, &ranges);
        for port in [0, 1, 99, 100, 149, 200, 250, 300, 301, 65_534, 65_535] {
            let is_inside = ranges.iter().any(|range| range.contains(port));
            let has = |set: &Flows| set.0.iter().any(|flow| flow.destination.contains(port));
            assert_eq!((has(&inside), has(&outside)), (is_inside, !is_inside), "{port}");
        }
        let (both, rest) = inside.split(Side::Source, &[ports(7, 7)]);
        assert!(both.concern(7, 100) && !both.concern(8, 100));
        assert!(rest.concern(8, 100) && !rest.concern(7, 1));
    }

    #[test]
    fn a_set_with_too_many_flows_becomes_the_set_of_all_packets() {
        let mut set = Flows::NONE;
        for port in 0..FLOWS_MAX as u16 {
            set.add(Flow { source: Ports::ALL, destination: ports(2 * port, 2 * port) });
        }
        assert!(!set.concern(1, 1));
        set.add(Flow { source: Ports::ALL, destination: ports(1001, 1001) });
        assert_eq!(set, Flows::all());
    }

    #[test]
    fn a_message_survives_its_encoding_and_junk_does_not_pass() {
        let mut set = Flows::NONE;
        set.add(Flow { source: ports(1, 9), destination: ports(80, 80) });
        set.add(Flow { source: ports(80, 80), destination: Ports::ALL });
        for set in [Flows::NONE, set, Flows::all()] {
            let message = set.encode();
            assert!(message.len() <= MESSAGE_MAX);
            assert_eq!(Flows::decode(&message), Some(set));
            assert_eq!(Flows::decode(&message[1..]), None);
            assert_eq!(Flows::decode(&[&message[..], &[0]].concat()), None);
        }
        let backwards = [&MAGIC[..], &[2, 0, 1, 0, 0, 0, 9, 0]].concat();
        assert_eq!(Flows::decode(&backwards), None);
        let too_long = [&MAGIC[..], &[0; FLOW * (FLOWS_MAX + 1)]].concat();
        assert_eq!(Flows::decode(&too_long), None);
    }
}
