//! Prints the results beside the published ones.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::carrier::Way;
use super::play::{BATCH, BATCH_BYTES, Batches, Reading};
use super::{Args, SIZES, WORK_US, published};
use crate::measure::bench::series::median;
use crate::measure::table::{self, number};

/// All readings.
#[derive(Default)]
pub(super) struct Seen {
    latency: BTreeMap<(usize, Way), Vec<f64>>,
    bandwidth: BTreeMap<(usize, Way), Vec<f64>>,
    /// Results of batches, by the index in [`WORK_US`].
    batches: BTreeMap<(usize, Way), Vec<Batches>>,
    described: BTreeMap<Way, String>,
}

impl Seen {
    pub(super) fn add(&mut self, way: Way, reading: Reading) {
        match reading {
            Reading::Latency { size, us } => self.latency.entry((size, way)).or_default().push(us),
            Reading::Bandwidth { size, mbit } => {
                self.bandwidth.entry((size, way)).or_default().push(mbit);
            }
            Reading::Batches(batches) => {
                let place = WORK_US.iter().position(|&work| work == batches.work_us);
                self.batches.entry((place.unwrap_or(0), way)).or_default().push(batches);
            }
            Reading::Described(text) => drop(self.described.insert(way, text)),
        }
    }

    fn batch(&self, place: usize, way: Way, figure: impl Fn(&Batches) -> f64) -> Option<f64> {
        median(self.batches.get(&(place, way))?.iter().map(figure).collect())
    }

    /// Prints a line of JSON for each point.
    pub(super) fn json(&self, out: &mut impl Write) -> anyhow::Result<()> {
        for (scenario, points, unit) in
            [("emp latency", &self.latency, "us"), ("emp bandwidth", &self.bandwidth, "mbit")]
        {
            for ((size, way), values) in points {
                let line = serde_json::json!({
                    "scenario": scenario, "way": way, "size_bytes": size, "unit": unit,
                    "value": median(values.clone()), "runs": values.len(),
                });
                writeln!(out, "{line}")?;
            }
        }
        for &(place, way) in self.batches.keys() {
            let line = serde_json::json!({
                "scenario": "emp batches", "way": way, "work_us": WORK_US[place],
                "isend_us": self.batch(place, way, |it| it.send),
                "irecv_us": self.batch(place, way, |it| it.receive),
                "waitall_us": self.batch(place, way, |it| it.wait),
                "processor_us": self.batch(place, way, |it| it.processor),
                "share_percent": self.batch(place, way, |it| it.share),
                "mbit": self.batch(place, way, |it| it.mbit),
            });
            writeln!(out, "{line}")?;
        }
        Ok(())
    }

    /// Prints tables in the paper's form.
    pub(super) fn print(
        &self,
        out: &mut impl Write,
        args: &Args,
        ways: &[Way],
        nics: [u32; 2],
    ) -> anyhow::Result<()> {
        let repetitions = args.repetitions;
        writeln!(
            out,
            "EMP between two namespaces over veth, MTU {}, {}. {repetitions} repetitions, medians of {} runs. Each run measures all layers, one after the other.\n\
             TCP has buffers of 64 KB on the same devices. emp-calls: the program's calls do the NIC's work.\n\
             emp-thread: a thread does the NIC's work, on processors {} and {}{}.\n\
             Each end copies each frame's bytes once between port and program, since no DMA engine does this.\n",
            args.mtu,
            if args.offloads { "with offloads" } else { "without offloads" },
            args.runs,
            nics[0],
            nics[1],
            if std::thread::available_parallelism().map_or(1, usize::from) < 4 {
                ", which the other end uses as well: this machine has fewer than four"
            } else {
                ""
            },
        )?;
        self.figure_5(out, ways)?;
        self.table_2(out, ways)?;
        self.figure_6(out, ways)?;
        for (way, text) in &self.described {
            writeln!(out, "{}: {text}", way.name())?;
        }
        Ok(())
    }

    fn figure_5(&self, out: &mut impl Write, ways: &[Way]) -> anyhow::Result<()> {
        let plots = [
            ("latency in us (half a round trip)", &self.latency, &published::LATENCY_US[..]),
            ("bandwidth in Mbit/s", &self.bandwidth, &[published::BANDWIDTH_MBIT]),
        ];
        for (title, points, published) in plots {
            let mut header = vec!["bytes".to_owned()];
            header.extend(ways.iter().map(|way| way.name().to_owned()));
            header.extend(["emp / tcp".to_owned(), "EMP, published".to_owned()]);
            let mut table = table::new(header, &[]);
            for size in SIZES {
                let of = |way: Way| median(points.get(&(size, way))?.clone());
                let mut row = vec![size.to_string()];
                row.extend(ways.iter().map(|&way| number(of(way))));
                let quotient = of(Way::EmpCalls).zip(of(Way::Tcp)).map(|(emp, tcp)| emp / tcp);
                let known = published.iter().find(|known| known.0 == size).map(|known| known.1);
                row.extend([number(quotient), number(known)]);
                table.add_row(row);
            }
            writeln!(out, "Figure 5: {title}\n{table}\n")?;
        }
        Ok(())
    }

    fn table_2(&self, out: &mut impl Write, ways: &[Way]) -> anyhow::Result<()> {
        let header = ["", "Isend", "Irecv", "Waitall", "sum", "sum / tcp", "processor per batch"];
        let mut table = table::new(header.map(str::to_owned).to_vec(), &[0]);
        let place = WORK_US.len() - 1;
        let sum = |way: Way| self.batch(place, way, |it| it.send + it.receive + it.wait);
        for &way in ways {
            let of = |figure: fn(&Batches) -> f64| number(self.batch(place, way, figure));
            table.add_row(vec![
                way.name().to_owned(),
                of(|it| it.send),
                of(|it| it.receive),
                of(|it| it.wait),
                number(sum(way)),
                number(sum(way).zip(sum(Way::Tcp)).map(|(own, tcp)| own / tcp)),
                of(|it| it.processor),
            ]);
        }
        for row in published::TABLE {
            let [send, receive, wait, sum] =
                [row.send, row.receive, row.wait, row.sum].map(|value| number(Some(value)));
            let quotient = number(Some(row.sum / published::TABLE[0].sum));
            table.add_row(vec![
                row.name.to_owned(),
                send,
                receive,
                wait,
                sum,
                quotient,
                "-".into(),
            ]);
        }
        writeln!(
            out,
            "Table 2: us per call, {BATCH} messages of {BATCH_BYTES} bytes each way, {} us of computing between Isend and Waitall.\n\
             The last column is the processor time of the whole process for a batch, including the NIC's thread.\n{table}\n",
            WORK_US[place]
        )?;
        Ok(())
    }

    fn figure_6(&self, out: &mut impl Write, ways: &[Way]) -> anyhow::Result<()> {
        let mut header = vec!["computing us".to_owned()];
        for way in ways {
            header.extend([format!("{} %", way.name()), "Mbit/s".to_owned()]);
        }
        let mut table = table::new(header, &[]);
        for (place, work) in WORK_US.iter().enumerate() {
            let mut row = vec![work.to_string()];
            for &way in ways {
                row.push(number(self.batch(place, way, |it| it.share)));
                row.push(number(self.batch(place, way, |it| it.mbit)));
            }
            table.add_row(row);
        }
        writeln!(
            out,
            "Figure 6: the program's share of its processor, and throughput both ways, {BATCH_BYTES}-byte messages in batches of {BATCH}\n{table}\n"
        )?;
        Ok(())
    }
}
