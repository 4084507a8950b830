//! Data that `sovia top` shows: programs, pairs of programs, and the history of a pair.

use std::collections::{BTreeMap, VecDeque};

use sovia_stats_page::{Rate, Rates, Scan, pairs};

use crate::watch::busy::{Couple, Program, Sum, by_couple, by_program};

/// Number of updates in a pair's graph.
const KEPT: usize = 240;
/// Range of times with a bar of their own, as powers of two of nanoseconds.
const TURNS: std::ops::Range<u32> = 6..30;

/// Order of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Traffic,
    Messages,
    Saved,
    Connections,
}

impl Order {
    pub(super) const ALL: [Order; 4] =
        [Order::Traffic, Order::Messages, Order::Saved, Order::Connections];

    pub(super) fn name(self) -> &'static str {
        match self {
            Order::Traffic => "traffic",
            Order::Messages => "messages",
            Order::Saved => "saved calls",
            Order::Connections => "connections",
        }
    }

    fn of(self, sum: &Sum) -> f64 {
        match self {
            Order::Traffic => sum.rate.sent + sum.rate.received,
            Order::Messages => sum.rate.messages_sent + sum.rate.packets_received,
            Order::Saved => sum.rate.saved(),
            Order::Connections => (sum.on_vi + sum.on_tcp) as f64,
        }
    }
}

/// History of a pair of programs.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    /// Answers a second at each update, the latest last.
    pub(super) answers: VecDeque<u64>,
    /// Weights of the times between a connection's answers, by powers of two of nanoseconds. The times are averages
    /// between two updates.
    pub(super) turns: BTreeMap<u32, f64>,
}

impl History {
    fn add(&mut self, sum: &Sum) {
        self.answers.push_back(sum.rate.packets_received as u64);
        if self.answers.len() > KEPT {
            self.answers.pop_front();
        }
        // Older values lose weight.
        self.turns.values_mut().for_each(|weight| *weight *= 0.95);
        for (turn, weight) in &sum.turns {
            let power = (turn * 1e9).log2() as u32;
            *self.turns.entry(power.clamp(TURNS.start, TURNS.end)).or_default() += weight;
        }
    }
}

/// A pair of programs on the screen.
#[derive(Debug, Clone)]
pub(super) struct Pair {
    pub(super) couple: Couple,
    pub(super) sum: Sum,
}

/// A program on the screen.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) program: Program,
    pub(super) processes: usize,
    pub(super) sum: Sum,
}

/// All data of the screen.
#[derive(Debug)]
pub(super) struct Model {
    rates: Rates,
    pub(super) order: Order,
    /// Index of the chosen pair, whose graphs are shown.
    pub(super) chosen: usize,
    pub(super) programs: Vec<Line>,
    pub(super) couples: Vec<Pair>,
    histories: BTreeMap<Couple, History>,
    /// Numbers of all ends on VIs and on TCP.
    pub(super) ends: (usize, usize),
    pub(super) forbidden: usize,
    /// Sum of all ends' rates.
    pub(super) all: Rate,
}

impl Model {
    pub(super) fn begin(scan: &Scan) -> Model {
        Model {
            rates: Rates::begin(scan),
            order: Order::Traffic,
            chosen: 0,
            programs: Vec::new(),
            couples: Vec::new(),
            histories: BTreeMap::new(),
            ends: (0, 0),
            forbidden: scan.forbidden,
            all: Rate::default(),
        }
    }

    /// Updates the data from a new scan.
    pub(super) fn next(&mut self, scan: &Scan) {
        let rates = self.rates.next(scan);
        self.all = rates.iter().fold(Rate::default(), |mut sum, rate| {
            sum += *rate;
            sum
        });
        let on_vi = scan.connections.iter().filter(|connection| connection.is_on_vi()).count();
        self.ends = (on_vi, scan.connections.len() - on_vi);
        self.forbidden = scan.forbidden;
        let programs = by_program(scan, &rates).into_iter();
        let line = |(program, (processes, sum))| Line { program, processes, sum };
        self.programs = programs.map(line).collect();
        let couples = by_couple(scan, &pairs(scan), &rates).into_iter();
        let chosen = self.couples.get(self.chosen).map(|pair| pair.couple.clone());
        self.couples = couples.map(|(couple, sum)| Pair { couple, sum }).collect();
        let couples = &self.couples;
        self.histories.retain(|couple, _| couples.iter().any(|pair| pair.couple == *couple));
        for pair in &self.couples {
            self.histories.entry(pair.couple.clone()).or_default().add(&pair.sum);
        }
        self.sort();
        self.choose(chosen);
    }

    /// Switches to the next order.
    pub(super) fn reorder(&mut self) {
        let at = Order::ALL.iter().position(|order| *order == self.order).unwrap_or(0);
        self.order = Order::ALL[(at + 1) % Order::ALL.len()];
        let chosen = self.couples.get(self.chosen).map(|pair| pair.couple.clone());
        self.sort();
        self.choose(chosen);
    }

    fn sort(&mut self) {
        let order = self.order;
        self.programs.sort_by(|one, other| order.of(&other.sum).total_cmp(&order.of(&one.sum)));
        self.couples.sort_by(|one, other| order.of(&other.sum).total_cmp(&order.of(&one.sum)));
    }

    /// Keeps the chosen pair chosen at its new index.
    fn choose(&mut self, couple: Option<Couple>) {
        let at = self.couples.iter().position(|pair| Some(&pair.couple) == couple.as_ref());
        self.chosen = at.unwrap_or(0);
    }

    /// Chooses another pair, `by` lines below.
    pub(super) fn step(&mut self, by: isize) {
        let last = self.couples.len().saturating_sub(1);
        self.chosen = self.chosen.saturating_add_signed(by).min(last);
    }

    /// Returns the chosen pair and its history.
    pub(super) fn chosen(&self) -> Option<(&Pair, &History)> {
        let pair = self.couples.get(self.chosen)?;
        Some((pair, self.histories.get(&pair.couple)?))
    }
}
