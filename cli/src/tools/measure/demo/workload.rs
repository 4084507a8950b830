//! Workloads of redis-benchmark, and its results.

use anyhow::Context;

/// A number of clients, and of requests that each client sends before it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Workload {
    pub(super) clients: u32,
    pub(super) pipelined: u32,
}

/// Workloads, in the order of the output.
pub(super) const WORKLOADS: [Workload; 3] = [
    Workload { clients: 50, pipelined: 1 },
    Workload { clients: 1, pipelined: 1 },
    Workload { clients: 50, pipelined: 64 },
];

/// Tests of redis-benchmark, in the order of its output.
pub(super) const TESTS: [&str; 2] = ["SET", "GET"];

/// Result of one test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Outcome {
    pub(super) requests_per_second: f64,
    /// Median latency of a request, in microseconds.
    pub(super) p50_us: f64,
}

impl Workload {
    /// Returns a number of requests that is large enough to estimate the speed.
    pub(super) fn few_requests(self) -> u64 {
        self.round(5_000)
    }

    /// Rounds a number of requests up, so that all clients send the same number, and several each.
    pub(super) fn round(self, requests: u64) -> u64 {
        let at_once = u64::from(self.clients * self.pipelined);
        requests.max(10 * at_once).next_multiple_of(at_once)
    }

    /// Returns the arguments of redis-benchmark.
    pub(super) fn arguments(self, requests: u64) -> Vec<String> {
        let numbers =
            [("-c", u64::from(self.clients)), ("-P", u64::from(self.pipelined)), ("-n", requests)];
        let numbers =
            numbers.into_iter().flat_map(|(flag, number)| [flag.to_owned(), number.to_string()]);
        ["-t", "set,get", "--csv"].into_iter().map(str::to_owned).chain(numbers).collect()
    }
}

/// Parses the output of `redis-benchmark --csv -t set,get`.
pub(super) fn parse(csv: &str) -> anyhow::Result<Vec<Outcome>> {
    let mut lines = csv
        .lines()
        .map(|line| line.split(',').map(|cell| cell.trim_matches('"')).collect::<Vec<_>>());
    let header = lines.next().context("redis-benchmark printed no results")?;
    let column = |name: &str| {
        let place = header.iter().position(|cell| *cell == name);
        place.with_context(|| {
            format!("cannot find the column `{name}` in the results; redis-benchmark 6.2 or later is needed")
        })
    };
    let (test, rate, p50) = (column("test")?, column("rps")?, column("p50_latency_ms")?);
    let rows: Vec<_> = lines.collect();
    let results = TESTS.iter().map(|name| {
        let row = rows
            .iter()
            .find(|row| row.get(test) == Some(name))
            .with_context(|| format!("cannot find {name} in the results"))?;
        let number = |column: usize| -> anyhow::Result<f64> {
            Ok(row.get(column).context("a line of the results is too short")?.parse()?)
        };
        Ok(Outcome { requests_per_second: number(rate)?, p50_us: number(p50)? * 1e3 })
    });
    results.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_by_its_header() {
        let csv = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\"\n\
            \"GET\",\"200.50\",\"0.1\",\"0.1\",\"0.004\"\n\"SET\",\"100\",\"0.1\",\"0.1\",\"0.5\"\n";
        let results = parse(csv).unwrap();
        assert_eq!(results[0], Outcome { requests_per_second: 100.0, p50_us: 500.0 });
        assert_eq!(results[1], Outcome { requests_per_second: 200.5, p50_us: 4.0 });
        assert!(parse("").is_err() && parse("\"test\",\"rps\"\n").is_err());
    }

    #[test]
    fn every_client_has_as_many_requests() {
        for workload in WORKLOADS {
            for requests in [0, 1, 12_345, 1_000_000] {
                let rounded = workload.round(requests);
                assert_eq!(rounded % u64::from(workload.clients * workload.pipelined), 0);
                assert!(rounded >= requests && rounded > 0);
            }
        }
    }
}
