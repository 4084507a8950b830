//! Picture of the demonstration: a bar for each kind of connection.

use super::workload::WORKLOADS;
use super::{Results, Way, median};
use crate::measure::bench::Note;
use crate::measure::bench::bars::{self, Bars, Row};
use crate::measure::bench::machine::Machine;

/// Redis command in the picture.
const TEST: &str = "GET";

/// Draws the requests a second of each workload over each kind of connection, as SVG.
pub(super) fn draw(results: &Results) -> String {
    let mut rows = Vec::new();
    for workload in WORKLOADS {
        for way in Way::ALL {
            let rate = median(results, workload, TEST, way, |one| one.requests_per_second);
            let Some(rate) = rate else { continue };
            let clients = if workload.clients == 1 { "client" } else { "clients" };
            let name = match workload.pipelined {
                1 => format!("{} {clients}, {}", workload.clients, way.name()),
                in_a_row => {
                    format!(
                        "{} {clients}, pipeline of {in_a_row}, {}",
                        workload.clients,
                        way.name()
                    )
                }
            };
            rows.push(Row { name, pieces: vec![("rate".to_owned(), rate)] });
        }
    }
    let machine = Machine::this((0, 0));
    let note = Note { text: machine.short(), is_warning: false };
    let title =
        "GET requests of an unmodified redis-benchmark, by what carries the bytes".to_owned();
    bars::draw(&Bars { title, label: "requests per second", rows }, &note)
}

#[cfg(test)]
mod tests {
    use super::super::workload::Outcome;
    use super::*;

    #[test]
    fn every_way_has_a_bar() {
        let mut results = Results::new();
        for workload in WORKLOADS {
            for way in Way::ALL {
                let outcome = Outcome { requests_per_second: 1000.0, p50_us: 1.0 };
                results.insert((workload, TEST, way), vec![outcome]);
            }
        }
        let svg = draw(&results);
        for way in Way::ALL {
            assert_eq!(svg.matches(&format!(", {}<", way.name())).count(), WORKLOADS.len());
        }
    }
}
