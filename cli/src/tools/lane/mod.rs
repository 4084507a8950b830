//! `sovia lane`: carries IP packets of a network device in messages of Virtual Interfaces.

mod device;
mod peers;

use std::io::Write;
use std::sync::mpsc::{Sender, channel};

use anyhow::Context;
use clap::Subcommand;
use ipnet::IpNet;
use nix::sys::signal::{SigSet, Signal};
use peers::Peer;
use sovia_lane::{Config, Event, Lane};
use sovia_nic::AnyNic;
use sovia_sys::tun;

use crate::usage::usage;

/// A lane is a network device whose IP packets go over Virtual Interfaces. Lanes form an IP network, which any program
/// can use with the kernel's TCP/IP. The papers on VIA compare sockets over VIs with such a network. For speed, use
/// `sovia run` instead.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Up(Up),
}

/// Make a network device, and carry its packets until SIGINT or SIGTERM.
///
/// Example for host 10.0.0.1, as root. On host 10.0.0.2, swap 10.200.0.1 with 10.200.0.2, and 10.0.0.1 with 10.0.0.2:
///
/// sovia lane up --address 10.200.0.1/24 --nic udp:10.0.0.1:7000 --peer 10.200.0.2=udp:10.0.0.2:7000
#[derive(clap::Args)]
struct Up {
    /// Name of the network device. The command makes the device, and removes the device when the command ends
    #[arg(long, value_name = "NAME", default_value = "lane0", value_parser = device_name)]
    device: String,
    /// Address of the device with prefix length. Repeat the option for more addresses: at most one may be IPv4
    #[arg(long, value_name = "IP/LENGTH", required = true, value_parser = address)]
    address: Vec<IpNet>,
    /// MTU of the device: length of the longest packet, in bytes. All lanes of a network must have the same MTU
    #[arg(long, value_name = "BYTES", default_value_t = 9000)]
    mtu: usize,
    /// Place of this lane's NIC: shm:NAME in shared memory, udp:ADDRESS:PORT with an address of this host, eth:DEVICE
    /// or xdp:DEVICE
    #[arg(long, value_name = "PLACE")]
    nic: String,
    /// Another lane. NETWORK: the addresses whose packets go to that lane, such as 10.200.0.2 or 10.201.0.0/16. PLACE:
    /// the place of that lane's NIC: shm:NAME, udp:ADDRESS:PORT, or mac:XX:XX:XX:XX:XX:XX of an eth or xdp device
    #[arg(long, value_name = "NETWORK=PLACE", required = true, value_parser = Peer::parse)]
    peer: Vec<Peer>,
    /// Network namespace of the device: a name of `ip netns`, or a path. The NIC stays in the namespace of this command
    #[arg(long, value_name = "NAME|PATH")]
    netns: Option<String>,
}

fn device_name(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if (1..=tun::NAME_MAX).contains(&text.len())
        && text.bytes().all(plain)
        && !text.starts_with('.')
    {
        Ok(text.to_owned())
    } else {
        Err(format!("expected 1 to {} letters, digits, `-`, `_` and `.`", tun::NAME_MAX))
    }
}

fn address(text: &str) -> Result<IpNet, String> {
    let expected = "expected an address with its prefix length, such as 10.200.0.1/24";
    let address: IpNet = text.parse().map_err(|_| expected.to_owned())?;
    let ip = address.addr();
    if ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() || address.prefix_len() == 0 {
        return Err(format!("{ip} cannot be the address of a device; {expected}"));
    }
    Ok(address)
}

/// Reason for the lane's end.
enum End {
    Signal,
    Over(String),
}

/// Carries out the command.
///
/// # Errors
/// An error if the lane cannot begin or continue.
pub(crate) fn lane(args: &Args) -> anyhow::Result<()> {
    let Command::Up(up) = &args.command;
    self::up(up)
}

/// Prints a line. The lane continues even if no reader is left.
fn say(to: &mut dyn Write, line: &str) {
    let _ = writeln!(to, "{line}");
    let _ = to.flush();
}

fn up(arguments: &Up) -> anyhow::Result<()> {
    let Up { device: name, address, mtu, nic, peer, netns } = arguments;
    let peers = peers::together(peer).map_err(usage)?;
    let config = Config { mtu: *mtu, peers };
    config.check().map_err(usage)?;
    // Blocked before other threads exist, so that no other thread takes these signals.
    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
    signals.thread_block().context("cannot block signals")?;
    let (sender, ends) = channel();
    let nic = AnyNic::open_at(nic).with_context(|| format!("cannot open --nic {nic}"))?;
    let device = device::make(name, *mtu, address, netns.as_deref())?;
    wait_for(signals, sender.clone())?;
    let own = name.clone();
    let lane = Lane::up(nic, device, config, move |event| match event {
        // The receiver exists until the process ends, so the send succeeds.
        Event::Over(why) => drop(sender.send(End::Over(why.to_string()))),
        event => say(&mut std::io::stderr(), &format!("{own}: {event}")),
    })?;
    // The lane carries packets from here on. A script waits for this line.
    say(&mut std::io::stdout(), &format!("{name} is up"));
    let end = ends.recv().context("cannot wait for the end of the lane")?;
    lane.down();
    say(&mut std::io::stdout(), &format!("{name} is down: {}", lane.counters()));
    match end {
        End::Signal => Ok(()),
        End::Over(why) => anyhow::bail!("{name}: {why}"),
    }
}

/// Starts the thread that takes signals.
fn wait_for(signals: SigSet, ends: Sender<End>) -> anyhow::Result<()> {
    let wait = move || {
        if signals.wait().is_ok() {
            let _ = ends.send(End::Signal);
        }
    };
    let thread = std::thread::Builder::new().name("signals".into()).spawn(wait);
    thread.map(drop).context("cannot start a thread")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn parse(words: &str) -> Result<Args, clap::Error> {
        Cli::try_parse_from(words.split(' ')).map(|cli| cli.args)
    }

    #[test]
    fn command_line_is_taken_apart() {
        let words = "lane up --address 10.200.0.1/24 --address fd00::1/64 --nic shm:a --peer 10.200.0.2=shm:b --mtu 1500";
        let Command::Up(up) = parse(words).unwrap().command;
        assert_eq!((up.device.as_str(), up.mtu, up.address.len()), ("lane0", 1500, 2));
        assert_eq!((up.nic.as_str(), up.netns), ("shm:a", None));
    }

    #[test]
    fn bad_words_are_refused_with_what_is_expected() {
        let good = "lane up --nic shm:a";
        for (words, expected) in [
            ("--address 10.200.0.1 --peer 10.200.0.2=shm:b", "as 10.200.0.1/24"),
            ("--address 224.0.0.1/24 --peer 10.200.0.2=shm:b", "cannot be the address of a device"),
            ("--address 10.200.0.1/24 --peer 10.200.0.2", "NETWORK=PLACE"),
            ("--address 10.200.0.1/24 --peer 10.200.0.2=tcp:b", "not the place of another NIC"),
            ("--address 10.200.0.1/24 --peer 10.200.0.2/33=shm:b", "as 10.200.0.2 or"),
            ("--address 10.200.0.1/24 --peer 224.0.0.1=shm:b", "do not carry multicast addresses"),
            ("--address 10.200.0.1/24", "--peer"),
            ("--address 10.200.0.1/24 --peer 10.200.0.2=shm:b --device a/b", "letters, digits"),
        ] {
            let error = parse(&format!("{good} {words}")).err().unwrap().to_string();
            assert!(error.contains(expected), "{words}: {error}");
        }
    }
}
