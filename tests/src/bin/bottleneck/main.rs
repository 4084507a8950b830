//! `bottleneck`: joins two Ethernet devices of one network namespace by a link with a rate, a delay, a queue and faults, as
//! tc-netem would. What happens to frames is decided by `sovia-simnet`, whose virtual time is here the real one.
//!
//! Usually the devices are the near ends of two veth pairs, whose far ends are in the namespaces of two hosts. Their offloads
//! must be off there (`ethtool -K DEVICE tx off tso off gso off tx-udp-segmentation off`), so that frames are those which would be on a wire.
//!
//! - `device`: frames from and to a device; `relay`: what is done with them.

mod device;
mod relay;

use clap::Parser;
use core::time::Duration;
use device::Device;
use relay::Relay;
use sovia_simnet::Link;
use std::process::ExitCode;

/// Joins two Ethernet devices by a link that is narrow, long and bad, each way alike. It ends with its standard input, and says then
/// what has become of frames.
#[derive(Parser)]
#[command(name = "bottleneck", max_term_width = 100)]
struct Cli {
    /// The device at the one end
    one: String,
    /// The device at the other end
    other: String,
    /// Megabits a second, Ethernet headers included
    #[arg(long, value_name = "MBIT", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    rate: u64,
    /// Microseconds from the one end to the other
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 5000)]
    delay: u64,
    /// Bytes that wait for the link at most; what comes then is lost
    #[arg(long, value_name = "BYTES", default_value_t = 1_250_000)]
    queue: u64,
    /// Frames that get lost, of a hundred
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    lose: f64,
    /// Frames that arrive twice, of a hundred
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    duplicate: f64,
    /// Frames that others may overtake, of a hundred
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    reorder: f64,
    /// Microseconds that such a frame is late at most
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 2000)]
    late: u64,
    /// Frames in which a bit changes, of a hundred
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
    // A script that starts it waits for this line.
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
