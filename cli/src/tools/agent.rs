//! `sovia agent`: vouches for programs of this host that cannot see each other; or is a NIC in software, which connects the programs of
//! this host to those of another one; or shares a device between programs with native VIs.

use core::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use ipnet::IpNet;
use sovia_agent::filters::FilterAgent;
use sovia_agent::{
    Config, Control, Faults, HostsConfig, Named, Nic, Orders, Peer, Peers, Place, SecretKey,
    Switch, SwitchConfig, Voucher, Way, read_peers, speak,
};
use sovia_cli::{databases, metrics};

/// Programs that are told to trust each other's user (`sovia run --trust`) meet by themselves if they are in one network
/// namespace and may ask the kernel about its sockets. Others, as in containers that a bridge connects, meet by this agent: it
/// has the kernel show that theirs are the two ends of one connection. It runs as root, and speaks to programs as a user
/// without privileges. A container reaches it where the folder of its socket is mounted.
///
/// With --filters it watches packet filters for programs that respect them (`sovia run --respect-filters`): nftables, traffic
/// control, and BPF programs of control groups. It runs as root, and uses `nft`, `tc` and `ip`.
///
/// With --name it is a NIC in software: programs of this host that ask for it (`sovia run --nic name=NAME`) reach those of
/// other hosts by it, where other agents do the same. They know each other by keys (--new-key). It reads its arguments and
/// files once: to change them, start it again.
///
/// With --metrics it counts what programs under Sovia do, for Prometheus: of all users, if it is root's.
///
/// With --name and --device it owns a network device, or a UDP port, and shares it between programs with native VIs (VIPL), whose
/// NIC is then agent:NAME and needs no privilege. It gives its own up before it hears any of them.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where programs find it; it is made, with its folder
    #[arg(long, value_name = "PATH", default_value = sovia_agent::PATH, conflicts_with = "name")]
    #[arg(default_value_if("filters", "true", sovia_agent::filters::PATH))]
    socket: PathBuf,
    /// Watch packet filters, and report to programs which of their packets these may stop
    #[arg(long, conflicts_with_all = ["name", "metrics", "user"])]
    filters: bool,
    /// The user as whom it speaks to programs; with --device the one that it becomes, if it is root's
    #[arg(long, value_name = "USER", default_value = "nobody", conflicts_with_all = ["listen", "port"])]
    user: String,
    /// The part that speaks to programs, as this program starts it
    #[arg(long, hide = true)]
    speak: bool,
    /// Make a key, write it to a file, and print the public key, by which other agents know the agent that has it
    #[arg(long, value_name = "FILE", exclusive = true)]
    new_key: Option<PathBuf>,
    /// Write counters of all programs under Sovia to this file, again and again: the textfile collector of Prometheus's node
    /// exporter takes it (a name that ends with .prom, in its folder). It needs nothing else of the agent
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "speak", "socket", "user"])]
    metrics: Option<PathBuf>,
    /// How often, in seconds
    #[arg(long, value_name = "SECONDS", requires = "metrics", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..))]
    metrics_interval: u64,
    /// Be a NIC in software: by what name programs find it, as in `sovia run --nic name=NAME`
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<String>,
    /// Share a port between programs that have native VIs: udp:IP:PORT, eth:DEVICE, or xdp:DEVICE
    #[arg(long, value_name = "PLACE", requires = "name", conflicts_with_all = ["listen", "port", "peer"])]
    device: Option<Place>,
    /// Whose programs share it; for each user once (without any, the user that starts it alone)
    #[arg(long, value_name = "USER", requires = "device")]
    serve: Vec<String>,
    /// Where it hears other agents: an address of this host, and a number for both TCP and UDP
    #[arg(long, value_name = "IP:PORT", requires_all = ["name", "key"])]
    listen: Option<SocketAddr>,
    /// The file of its key
    #[arg(long, value_name = "FILE", requires = "listen")]
    key: Option<PathBuf>,
    /// Another agent: its public key, where it listens, and addresses for which it may speak, as 10.0.0.0/24 (without any, that
    /// at which it listens alone); for each agent once
    #[arg(long, value_name = "KEY@IP:PORT[,NETWORK...]", requires = "name")]
    peer: Vec<String>,
    /// A file of other agents: one a line, its public key, IP:PORT and networks; what follows `#` is a comment
    #[arg(long, value_name = "FILE", requires = "listen")]
    peers: Option<PathBuf>,
    /// Addresses for which the one agent of --peer may speak, as if they were written there
    #[arg(long, value_name = "NETWORK", requires = "listen")]
    peer_network: Vec<IpNet>,
    /// What limits what it sends: `bbr`, congestion control for a network that others use too, or `fixed`, nothing but a window,
    /// for a direct link between the two hosts
    #[arg(long, value_name = "CONTROL", requires = "listen", default_value_t = Control::Bbr)]
    control: Control,
    /// A NIC by which frames go to agents that have one of its kind, and by UDP to others: verbs or verbs:DEVICE for one that does RDMA,
    /// ofi:PROVIDER[@ADDRESS] for one of libfabric's; without an address, or a device, the one at that of --listen. auto:
    /// verbs where the kernel has such a NIC at that address; none: UDP alone
    #[arg(long, value_name = "NIC", default_value = "auto")]
    fabric: String,
    /// For tests, the Unix datagram socket on which the NIC hears another one of this host; it is made, and --peer is the
    /// other one's
    #[arg(long, value_name = "PATH", requires = "name", conflicts_with = "listen")]
    port: Option<PathBuf>,
    /// Frames that get lost on their way, of a million
    #[arg(long, value_name = "N", default_value_t = 0)]
    lose: u32,
    /// Frames that arrive twice, of a million
    #[arg(long, value_name = "N", default_value_t = 0)]
    duplicate: u32,
    /// Frames that arrive after the one behind them, of a million
    #[arg(long, value_name = "N", default_value_t = 0)]
    delay: u32,
    /// Frames in which a bit changes, of a million
    #[arg(long, value_name = "N", default_value_t = 0)]
    corrupt: u32,
    /// What decides which frames those are
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

fn name(text: &str) -> Result<String, String> {
    match sovia_control::NicName::parse(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err("expected at most 32 letters, digits, `-` and `_`".into()),
    }
}

/// Does what the arguments ask for.
///
/// # Errors
/// The agent cannot begin, or cannot go on.
pub(crate) fn agent(args: &Args) -> anyhow::Result<()> {
    match args {
        Args { speak: true, .. } => Err(speak().into()),
        Args { filters: true, socket, .. } => Err(watch_filters(socket)),
        Args { new_key: Some(path), .. } => new_key(path),
        Args { metrics: Some(path), metrics_interval, .. } => {
            let ready = || println!("the counters are in {}", path.display());
            metrics::serve(path, Duration::from_secs(*metrics_interval), ready)
        }
        Args { name: Some(name), device: Some(place), .. } => share(args, name, place),
        Args { name: Some(name), .. } => serve(args, name),
        _ => Err(vouch(&args.socket, &args.user)),
    }
}

/// Watches packet filters, for as long as the kernel lets it.
fn watch_filters(socket: &Path) -> anyhow::Error {
    match FilterAgent::open(socket) {
        Ok(agent) => {
            println!("the agent is ready at {}", socket.display());
            agent.serve().into()
        }
        Err(error) => error.into(),
    }
}

/// Makes a key.
fn new_key(path: &Path) -> anyhow::Result<()> {
    let key = SecretKey::generate()?;
    key.write_new(path).with_context(|| format!("{} cannot be written", path.display()))?;
    println!("{}", key.public());
    Ok(())
}

/// Is a NIC, until it is ordered to end.
fn serve(args: &Args, name: &str) -> anyhow::Result<()> {
    let faults = Faults {
        lost: args.lose,
        duplicated: args.duplicate,
        delayed: args.delay,
        corrupted: args.corrupt,
        seed: args.seed,
    };
    let config = Config {
        name: name.to_owned(),
        way: way(args)?,
        control: args.control,
        faults,
        fabric: args.fabric.parse().unwrap_or_default(),
    };
    let orders = Orders::take()?;
    let nic = Nic::open(&config)?;
    // From here on programs are heard; a script that starts it waits for this line.
    println!("the NIC {name} is ready");
    Ok(nic.serve(Some(&orders))?)
}

/// Shares a port, until it is ordered to end.
fn share(args: &Args, name: &str, place: &Place) -> anyhow::Result<()> {
    let own = sovia_sys::call::geteuid();
    let uids = args.serve.iter().map(|user| databases::user(user));
    let mut users = uids.collect::<anyhow::Result<Vec<u32>>>()?;
    if users.is_empty() {
        users.push(own);
    }
    // Each has its share of the places.
    users.sort_unstable();
    users.dedup();
    let user = match own {
        0 => Some(databases::user_and_group(&args.user)?),
        _ => None,
    };
    let config = SwitchConfig { name: name.to_owned(), place: place.clone(), users, user };
    let orders = Orders::take()?;
    let switch = Switch::open(&config)?;
    match place {
        // The kernel has chosen the port.
        Place::Udp(address) if address.port() == 0 => {
            println!("the port {name} is ready at udp:{}", switch.own());
        }
        _ => println!("the port {name} is ready"),
    }
    Ok(switch.serve(Some(&orders))?)
}

/// Where other NICs are.
fn way(args: &Args) -> anyhow::Result<Way> {
    if let Some(port) = &args.port {
        let [peer] = &args.peer[..] else {
            anyhow::bail!("--port needs one --peer: the socket of the other NIC");
        };
        return Ok(Way::Local { port: port.clone(), peer: peer.into() });
    }
    let (Some(listen), Some(path)) = (args.listen, &args.key) else {
        anyhow::bail!("--name needs --listen and --key, or --device");
    };
    anyhow::ensure!(
        !listen.ip().is_unspecified() && listen.port() != 0,
        "--listen {listen}: expected an address of this host's and a port, as other agents have it in --peer"
    );
    let key = SecretKey::read(path).with_context(|| {
        format!("the key {} (made by sovia agent --new-key FILE)", path.display())
    })?;
    let peers = Peers::new(key.public(), listen, named_peers(args)?)?;
    Ok(Way::Network(HostsConfig { listen, key, peers }))
}

/// The peers that the arguments and the file name.
fn named_peers(args: &Args) -> anyhow::Result<Vec<Named>> {
    let named = |text: &String| -> anyhow::Result<Named> {
        let origin = format!("--peer {text}");
        let peer = text.parse::<Peer>().with_context(|| origin.clone())?;
        Ok(Named { origin, peer })
    };
    let mut peers = args.peer.iter().map(named).collect::<anyhow::Result<Vec<_>>>()?;
    if !args.peer_network.is_empty() {
        let ([one], [text], None) = (&mut peers[..], &args.peer[..], &args.peers) else {
            anyhow::bail!(
                "--peer-network says of one agent alone for which addresses it may speak, and there are several: \
                 write --peer KEY@IP:PORT,NETWORK,... for each"
            );
        };
        if !text.contains(',') {
            one.peer.networks.clear();
        }
        one.peer.networks.extend(&args.peer_network);
    }
    if let Some(path) = &args.peers {
        peers.extend(read_peers(path).with_context(|| format!("--peers {}", path.display()))?);
    }
    Ok(peers)
}

/// Vouches, for as long as it can.
fn vouch(socket: &Path, user: &str) -> anyhow::Error {
    let (uid, gid) = match databases::user_and_group(user) {
        Ok(found) => found,
        Err(error) => return error,
    };
    let mut speaker = Command::new("/proc/self/exe");
    speaker.args(["agent", "--speak"]).env_clear().current_dir("/").uid(uid).gid(gid);
    match Voucher::open(socket, speaker) {
        Ok(voucher) => {
            println!("the agent is ready at {}", socket.display());
            voucher.serve().into()
        }
        Err(error) => error.into(),
    }
}
