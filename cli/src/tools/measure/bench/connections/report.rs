//! Prints the figures of all pairs as a table or as JSON.

use serde::Serialize;

use super::{Measured, Nodelay, Pair, Point};
use crate::measure::table::{self, number};
use crate::output::put_line;

/// Ratio of Sovia's figure to TCP's: the median of the pairs, and the first and third quartile.
#[derive(Clone, Copy, Debug, Serialize)]
struct Ratio {
    median: f64,
    quarter: f64,
    three_quarters: f64,
}

#[derive(Serialize)]
struct Line {
    scenario: &'static str,
    clients: u32,
    nodelay: Nodelay,
    messages: u32,
    size_bytes: u32,
    answer_bytes: u32,
    runs: usize,
    connections_ratio: Ratio,
    p50_ratio: Ratio,
    p99_ratio: Ratio,
    cpu_ratio: Ratio,
    tcp: Measured,
    sovia: Measured,
}

pub(super) fn print(points: &[Point], pairs: &[Vec<Pair>], json: bool) -> anyhow::Result<()> {
    let lines: Vec<_> = points.iter().zip(pairs).map(|(point, pairs)| line(point, pairs)).collect();
    if json {
        for line in &lines {
            put_line!("{}", serde_json::to_string(line)?)?;
        }
        return Ok(());
    }
    let header = [
        "clients",
        "nodelay",
        "messages",
        "answer",
        "tcp 1/s",
        "sovia 1/s",
        "ratio",
        "quartiles",
        "p99 tcp us",
        "p99 sovia us",
        "ratio",
        "max us tcp, sovia",
        "cpu ratio",
        "context switches tcp, sovia",
        "left TCP",
    ];
    let mut table = table::new(header.map(str::to_owned).to_vec(), &[1]);
    for line in &lines {
        let n = |value| number(Some(value));
        let (tcp, sovia) = (&line.tcp, &line.sovia);
        table.add_row(vec![
            line.clients.to_string(),
            line.nodelay.name().to_owned(),
            line.messages.to_string(),
            line.answer_bytes.to_string(),
            n(tcp.connections_per_second),
            n(sovia.connections_per_second),
            n(line.connections_ratio.median),
            format!(
                "{}-{}",
                n(line.connections_ratio.quarter),
                n(line.connections_ratio.three_quarters)
            ),
            n(tcp.p99_us),
            n(sovia.p99_us),
            n(line.p99_ratio.median),
            format!("{}, {}", n(tcp.max_us), n(sovia.max_us)),
            n(line.cpu_ratio.median),
            format!("{}, {}", n(tcp.switches), n(sovia.switches)),
            format!("{} %", n(sovia.accelerated * 50.0)),
        ]);
    }
    put_line!(
        "Connections with this number of messages each way, over TCP and Sovia in turn; medians.\n{table}"
    )?;
    Ok(())
}

fn line(point: &Point, pairs: &[Pair]) -> Line {
    let ratio = |of: fn(&Measured) -> f64| {
        let mut all: Vec<f64> = pairs.iter().map(|pair| of(&pair.sovia) / of(&pair.tcp)).collect();
        let at = |part| quantile(&mut all, part);
        let [median, quarter, three_quarters] = [0.5, 0.25, 0.75].map(at);
        Ratio { median, quarter, three_quarters }
    };
    Line {
        scenario: "connections",
        clients: point.clients,
        nodelay: point.nodelay,
        messages: point.messages,
        size_bytes: point.size,
        answer_bytes: point.answer,
        runs: pairs.len(),
        connections_ratio: ratio(|m| m.connections_per_second),
        p50_ratio: ratio(|m| m.p50_us),
        p99_ratio: ratio(|m| m.p99_us),
        cpu_ratio: ratio(|m| m.cpu_us),
        tcp: medians(pairs, |pair| pair.tcp),
        sovia: medians(pairs, |pair| pair.sovia),
    }
}

fn medians(pairs: &[Pair], side: impl Fn(&Pair) -> Measured) -> Measured {
    let median = |of: fn(&Measured) -> f64| {
        quantile(&mut pairs.iter().map(|pair| of(&side(pair))).collect::<Vec<_>>(), 0.5)
    };
    Measured {
        connections_per_second: median(|m| m.connections_per_second),
        p50_us: median(|m| m.p50_us),
        p99_us: median(|m| m.p99_us),
        max_us: median(|m| m.max_us),
        cpu_us: median(|m| m.cpu_us),
        switches: median(|m| m.switches),
        accelerated: median(|m| m.accelerated),
    }
}

/// Sorts the values, and returns their quantile `part`; NaN if there are none.
fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1) as f64;
    values.get((part * last).round() as usize).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_taken_within_each_pair() {
        let measured = |rate| Measured {
            connections_per_second: rate,
            p50_us: 1.0,
            p99_us: 1.0,
            max_us: 1.0,
            cpu_us: 1.0,
            switches: 1.0,
            accelerated: 0.0,
        };
        let pair = |tcp, sovia| Pair { tcp: measured(tcp), sovia: measured(sovia) };
        let point = Point {
            clients: 1,
            nodelay: Nodelay::Both,
            messages: 1,
            size: 64,
            answer: 64,
            server_closes: false,
            warm: 0,
            peers: 0,
            seconds: 0.1,
        };
        // In one of the pairs, the machine was twice as slow.
        let line = line(&point, &[pair(10.0, 20.0), pair(5.0, 10.0), pair(10.0, 30.0)]);
        assert_eq!(line.connections_ratio.median, 2.0);
        assert_eq!(line.connections_ratio.three_quarters, 3.0);
    }
}
