//! `bottleneck`: joins two Ethernet devices of one network namespace by a link with a rate, a delay, a queue and
//! faults, like tc-netem. `sovia-simnet` decides the fate of each frame; here its virtual time is the real time.
//!
//! Usually the devices are the near ends of two veth pairs, and the other ends are in the namespaces of two hosts.
//! Turn their offloads off there (`ethtool -K DEVICE tx off tso off gso off tx-udp-segmentation off`), so that frames
//! have their size on a wire.
//!
//! - `device`: receives and sends frames; `relay`: delays, loses and changes them.

mod device;
mod relay;

use clap::Parser;
use core::time::Duration;
use device::Device;
use relay::Relay;
use sovia_simnet::Link;
use std::process::ExitCode;

/// Joins two Ethernet devices by a slow, long and lossy link, the same in both directions. It ends with its standard
/// input, and then prints counts of frames.
#[derive(Parser)]
#[command(name = "bottleneck", max_term_width = 100)]
struct Cli {
    /// First device
    one: String,
    /// Second device
    other: String,
    /// Megabits a second, Ethernet headers included
    #[arg(long, value_name = "MBIT", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    rate: u64,
    /// Microseconds from one end to the other
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 5000)]
    delay: u64,
    /// Size of the queue in bytes; frames that find it full are lost
    #[arg(long, value_name = "BYTES", default_value_t = 1_250_000)]
    queue: u64,
    /// Percentage of frames that get lost
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    lose: f64,
    /// Percentage of frames that arrive twice
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    duplicate: f64,
    /// Percentage of frames that others may overtake
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    reorder: f64,
    /// Longest additional delay of such a frame in microseconds
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 2000)]
    late: u64,
    /// Percentage of frames in which a bit changes
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    corrupt: f64,
    /// Seed that selects these frames
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// A probability.
fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=100.0).contains(&value) => Ok(value / 100.0),
        _ => Err("expected a number from 0 to 100".into()),
    }
}

impl Cli {
    fn link(&self) -> Link {
        Link {
            latency: Duration::from_micros(self.delay),
            jitter: Duration::ZERO,
            bandwidth: Some(self.rate * 125_000),
            queue: Some(self.queue),
            loss: self.lose,
            duplicate: self.duplicate,
            corrupt: self.corrupt,
            reorder: self.reorder,
            reorder_delay: Duration::from_micros(self.late),
        }
    }
}

fn serve(cli: &Cli) -> anyhow::Result<()> {
    let open = |name: &str| {
        Device::open(name)
            .map_err(|error| anyhow::anyhow!("the Ethernet device {name} cannot be used: {error}"))
    };
    let mut relay = Relay::new(cli.seed, cli.link(), [open(&cli.one)?, open(&cli.other)?]);
    // The script that starts this program waits for this line.
    println!("the way is ready");
    relay.run().map_err(|error| anyhow::anyhow!("frames cannot be moved: {error}"))?;
    println!("{}", relay.summary());
    Ok(())
}

fn main() -> ExitCode {
    match serve(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bottleneck: {error:#}");
            ExitCode::FAILURE
        }
    }
}
