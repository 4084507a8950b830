//! `sovia bench hosts`: measures between two hosts, without the ports that are not available here.

use std::path::PathBuf;
use std::time::Instant;

use super::net::{Net, Port};
use super::pair::Pairs;
use super::results::Results;
use super::work::{Scenario, Way};
use super::{OneArgs, page, plan};
use crate::measure::bench::machine::Machine;
use crate::measure::progress::Progress;

/// Between two hosts.
#[derive(clap::Args)]
pub(in crate::measure::bench) struct HostsArgs {
    #[command(flatten)]
    one: OneArgs,
    /// Carriers of the VIs' frames, separated by commas [default: all that this machine has]
    #[arg(long, value_enum, value_delimiter = ',')]
    ports: Vec<Port>,
    /// MTUs to measure with, in bytes, separated by commas: 1500, 9000 [default: both]
    #[arg(long, value_delimiter = ',', value_parser = parse_mtu)]
    mtu: Vec<u32>,
    /// Also write a page, pictures and the data into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl HostsArgs {
    /// Returns true if the user has selected this network.
    fn wants(&self, net: Net) -> bool {
        let port = net.port.is_none_or(|port| self.ports.is_empty() || self.ports.contains(&port));
        port && (self.mtu.is_empty() || self.mtu.contains(&net.link.mtu))
    }
}

/// Measures between two hosts, without the ports that are not available here.
pub(super) fn bench(args: &HostsArgs) -> anyhow::Result<i32> {
    let start = Instant::now();
    let how = &args.one.how;
    let mut parts = plan::parts(Scenario::Hosts, how.effort());
    parts.retain(|part| part.net.is_some_and(|net| args.wants(net)));
    let mut pairs = Pairs::new()?;
    pairs.add_hosts(parts.iter())?;
    let mut left_out = Vec::new();
    let mut uses: Vec<_> = parts.iter().filter_map(|part| Some((part.net?, part.way))).collect();
    uses.dedup();
    for (net, way) in uses {
        let Err(why) = pairs.probe(net, way) else { continue };
        let name = net.port.map_or("shm", Port::name);
        let name = if way == Way::Lane { format!("lanes by {name}") } else { name.to_owned() };
        let why = format!("{name} at MTU {}: {why:#}", net.link.mtu);
        if !left_out.contains(&why) {
            eprintln!("sovia: left out: {why}");
            left_out.push(why);
        }
        parts.retain(|part| (part.net, part.way) != (Some(net), way));
    }
    let machine = Machine::this(pairs.cpus());
    if machine.is_busy() {
        eprintln!(
            "sovia: the machine is busy: {}; ends that spin are kept from their processors",
            machine.busy_text()
        );
    }
    let mut results = Results::new(Scenario::Hosts, parts);
    results.left_out = left_out;
    let progress = Progress::of_runs(how.runs(), results.parts.len());
    for done in 0..how.runs() {
        super::run(&mut results, done, &pairs, &progress);
    }
    progress.finish();
    if let Some(out) = &args.out {
        let took = start.elapsed().as_secs_f64();
        let how = format!("{} It took {took:.0} s.", super::how(how));
        let all = [results];
        let setting = page::Setting { machine: &machine, how: &how };
        let files = page::write(out, &setting, &all)?;
        eprintln!("sovia: {} files in {}: {}", files.len(), out.display(), files.join(", "));
        let [measured] = all;
        results = measured;
    }
    super::report(results, &args.one)
}

/// Parses the MTU of one of the papers' Ethernets.
fn parse_mtu(text: &str) -> Result<u32, String> {
    let mtu = text.parse().ok().filter(|mtu| plan::hosts::MTUS.contains(mtu));
    mtu.ok_or_else(|| "expected 1500 or 9000".to_owned())
}
