//! Rates of programs, and of pairs of programs.

use std::collections::BTreeMap;

use sovia_stats_page::{Pairs, Rate, Scan};

/// Sum over several connections.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Sum {
    /// Number of connections with at least one direction on a VI.
    pub(crate) on_vi: usize,
    /// Number of other connections.
    pub(crate) on_tcp: usize,
    /// Sum of the rates.
    pub(crate) rate: Rate,
    /// For each connection with answers: the time from one answer to the next in seconds, and the number of answers a
    /// second.
    pub(crate) turns: Vec<(f64, f64)>,
}

impl Sum {
    fn add(&mut self, is_on_vi: bool, rate: Rate) {
        *(if is_on_vi { &mut self.on_vi } else { &mut self.on_tcp }) += 1;
        self.rate += rate;
        if rate.packets_received > 0.0 {
            self.turns.push((1.0 / rate.packets_received, rate.packets_received));
        }
    }

    /// Returns the quantile `part` of the time between answers; `None` if there were none.
    pub(crate) fn turn(&self, part: f64) -> Option<f64> {
        let mut turns = self.turns.clone();
        turns.sort_by(|one, other| one.0.total_cmp(&other.0));
        let wanted = part * turns.iter().map(|(_, weight)| weight).sum::<f64>();
        let mut seen = 0.0;
        let found = turns.iter().find(|(_, weight)| {
            seen += weight;
            seen >= wanted
        });
        found.or(turns.last()).map(|(turn, _)| *turn)
    }
}

/// A user's program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) uid: u32,
}

/// Two programs, and the server's port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Couple {
    /// The connecting program; empty if it cannot be seen.
    pub(crate) client: String,
    /// The accepting program; empty if it cannot be seen.
    pub(crate) server: String,
    pub(crate) port: u16,
}

/// Sums up rates by process, which is an index in the scan. A connection of several processes counts for the first one.
pub(crate) fn by_process(scan: &Scan, rates: &[Rate]) -> BTreeMap<usize, Sum> {
    let mut sums: BTreeMap<usize, Sum> =
        (0..scan.processes.len()).map(|process| (process, Sum::default())).collect();
    for (connection, rate) in scan.connections.iter().zip(rates) {
        sums.entry(connection.processes[0]).or_default().add(connection.is_on_vi(), *rate);
    }
    sums
}

/// Sums up rates by program, with the number of its processes.
pub(crate) fn by_program(scan: &Scan, rates: &[Rate]) -> BTreeMap<Program, (usize, Sum)> {
    let mut sums: BTreeMap<Program, (usize, Sum)> = BTreeMap::new();
    for (process, sum) in by_process(scan, rates) {
        let process = &scan.processes[process];
        let program = Program { name: process.program.clone(), uid: process.uid };
        let (processes, all) = sums.entry(program).or_default();
        *processes += 1;
        all.on_vi += sum.on_vi;
        all.on_tcp += sum.on_tcp;
        all.rate += sum.rate;
        all.turns.extend(sum.turns);
    }
    sums
}

/// Sums up rates by pair of programs. The rates are those of the client's end. If only the server's end is visible,
/// they are the server's, with sent and received exchanged.
pub(crate) fn by_couple(scan: &Scan, pairs: &Pairs, rates: &[Rate]) -> BTreeMap<Couple, Sum> {
    let mut sums: BTreeMap<Couple, Sum> = BTreeMap::new();
    for (at, (connection, rate)) in scan.connections.iter().zip(rates).enumerate() {
        let Some((local, peer)) = connection.addresses() else { continue };
        let is_client = connection.record.is_connector;
        if !is_client && pairs[at].is_some() {
            continue;
        }
        let program = |at: usize| {
            let process = scan.connections[at].processes[0];
            scan.processes[process].program.clone()
        };
        let (own, other) = (program(at), pairs[at].map(program).unwrap_or_default());
        let (client, server, port) =
            if is_client { (own, other, peer.port()) } else { (other, own, local.port()) };
        // The calls of both ends are saved, and either end may sleep.
        let mut rate = *rate;
        if let Some(other) = pairs[at] {
            rate.sleeps += rates[other].sleeps;
        }
        if !is_client {
            std::mem::swap(&mut rate.sent, &mut rate.received);
            std::mem::swap(&mut rate.messages_sent, &mut rate.packets_received);
        }
        let sum = sums.entry(Couple { client, server, port }).or_default();
        sum.add(connection.is_on_vi(), rate);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_all_answers_is_counted_by_their_number() {
        let mut sum = Sum::default();
        let answers = |packets_received| Rate { packets_received, ..Rate::default() };
        assert_eq!(sum.turn(0.5), None);
        sum.add(true, answers(0.0));
        assert_eq!((sum.on_vi, sum.turn(0.5)), (1, None));
        // Nine tenths of the answers are fast.
        sum.add(true, answers(9000.0));
        sum.add(false, answers(1000.0));
        assert_eq!((sum.on_vi, sum.on_tcp), (2, 1));
        assert_eq!(sum.turn(0.5), Some(1.0 / 9000.0));
        assert_eq!(sum.turn(0.99), Some(1.0 / 1000.0));
    }
}
