//! `sovia agent` has several roles. It vouches for programs of this host that cannot see each other. Or it is a NIC in
//! software, which connects programs of this host and another host. Or it shares a device between programs with native
//! VIs.

use core::net::SocketAddr;
use std::fmt;
use std::fs;
use std::io::{self, Write as _};
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

use crate::output::put_line;
use crate::usage::{usage, wrong};

/// Let programs use Sovia across network namespaces, sandboxes and hosts
///
/// Programs in one network namespace need no agent if they may ask the kernel about sockets. Other programs, such as
/// programs in containers on a bridge, find each other through the agent. Each program must trust the user of the other
/// program (`sovia run --trust`). The agent checks with the kernel that the two programs have the two ends of one
/// connection.
///
/// This agent must be started as root. The part of the agent that talks to programs runs as a user without privileges
/// (--user). Programs in a container reach the agent if the folder of the agent's socket is mounted in the container.
///
/// With --filters, the agent watches packet filters for programs that respect filters (`sovia run --respect-filters`).
/// The agent watches nftables rules, traffic control, and BPF programs of control groups. This agent must be started as
/// root, and needs the commands `nft`, `tc` and `ip`.
///
/// With --name, the agent is a NIC in software, which connects programs of this host to programs of other hosts.
/// Programs choose the NIC with `sovia run --nic name=NAME`. Each of the other hosts needs such an agent too. Agents
/// recognize each other by keys (--new-key). The agent reads the key and the peers only when it starts.
///
/// With --metrics, the agent counts bytes, messages and connections of programs under Sovia, for Prometheus. An agent
/// that runs as root counts the programs of all users.
///
/// With --name and --device, the agent owns a network device or a UDP port, and shares it among programs that use
/// native VIs (VIPL). These programs open the NIC agent:NAME, and need no privilege. The agent gives up its own
/// privileges before it receives anything from programs.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Path of the socket where programs find the agent. The agent makes the socket and the socket's folder
    #[arg(long, value_name = "PATH", default_value = sovia_agent::PATH, conflicts_with = "name")]
    #[arg(default_value_if("filters", "true", sovia_agent::filters::PATH))]
    socket: PathBuf,
    /// Watch packet filters, and report to programs which of their packets the filters may stop
    #[arg(long, conflicts_with_all = ["name", "metrics", "user"])]
    filters: bool,
    /// User that the part of the agent runs as that talks to programs. The other part stays root. With --device, the
    /// whole agent runs as this user if root starts it
    #[arg(long, value_name = "USER", default_value = "nobody", conflicts_with_all = ["listen", "port"])]
    user: String,
    /// The part that speaks to programs, as this program starts it
    #[arg(long, hide = true)]
    speak: bool,
    /// Make a key for an agent, write the secret key to this file, and print the public key. Other agents recognize the
    /// agent by the public key
    #[arg(long, value_name = "FILE", exclusive = true)]
    new_key: Option<PathBuf>,
    /// Write counters of programs under Sovia to this file, once in each interval (--metrics-interval). The textfile
    /// collector of Prometheus's node exporter reads the file. The file must be in the collector's folder, and its name
    /// must end with .prom. An agent with this option does nothing else
    #[arg(long, value_name = "FILE", value_parser = metrics_file, conflicts_with_all = ["name", "speak", "socket", "user"])]
    metrics: Option<PathBuf>,
    /// Seconds from one write of the counters to the next
    #[arg(long, value_name = "SECONDS", requires = "metrics", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..))]
    metrics_interval: u64,
    /// Run as a NIC in software with this name, which programs choose with `sovia run --nic name=NAME`
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<String>,
    /// Share a port between programs that use native VIs. The port is udp:IP:PORT, eth:DEVICE or xdp:DEVICE
    #[arg(long, value_name = "PLACE", requires = "name", conflicts_with_all = ["listen", "port", "peer"])]
    device: Option<Place>,
    /// Let this user's programs share the port. Give the option once for each user [default: only the user that starts
    /// the agent]
    #[arg(long, value_name = "USER", requires = "device")]
    serve: Vec<String>,
    /// Listen for other agents at this address of this host, at this port of both TCP and UDP
    #[arg(long, value_name = "IP:PORT", requires_all = ["name", "key"])]
    listen: Option<SocketAddr>,
    /// File with this agent's secret key, as --new-key makes it
    #[arg(long, value_name = "FILE", requires = "listen")]
    key: Option<PathBuf>,
    /// Another agent: its public key, the address and port where it listens, and networks such as 10.0.0.0/24. The
    /// other agent may connect only programs with addresses in these networks. Without networks, it may connect only
    /// programs with the address where it listens. Give the option once for each other agent
    #[arg(long, value_name = "KEY@IP:PORT[,NETWORK...]", requires = "name")]
    peer: Vec<String>,
    /// File that lists other agents. Each line has a public key, IP:PORT and, optionally, networks. Text after `#` is a
    /// comment
    #[arg(long, value_name = "FILE", requires = "listen")]
    peers: Option<PathBuf>,
    /// Network of the agent in --peer, in addition to networks in --peer. Only possible if --peer is given exactly once
    #[arg(long, value_name = "NETWORK", requires = "listen")]
    peer_network: Vec<IpNet>,
    /// How the agent limits its sending rate. `bbr`: by congestion control, for a network with other traffic. `fixed`:
    /// only by a window, for a direct link between the two hosts
    #[arg(long, value_name = "CONTROL", requires = "listen", default_value_t = Control::Bbr)]
    control: Control,
    /// NIC for frames to agents that have a NIC of the same kind. Frames to all other agents go over UDP. `verbs` or
    /// `verbs:DEVICE`: an RDMA NIC. `ofi:PROVIDER[@ADDRESS]`: a NIC of libfabric. Without a device or an address, the
    /// NIC is the one at the address of --listen. `auto`: like `verbs` if the kernel has an RDMA NIC at that address,
    /// and otherwise like `none`. `none`: all frames go over UDP
    #[arg(long, value_name = "NIC", default_value = "auto")]
    fabric: String,
    /// For tests: path of the Unix datagram socket where this NIC receives frames from another NIC of this host. The
    /// agent makes the socket. --peer is the path of the other NIC's socket
    #[arg(long, value_name = "PATH", requires = "name", conflicts_with = "listen")]
    port: Option<PathBuf>,
    /// For tests: in each million frames, lose this many
    #[arg(long, value_name = "N", default_value_t = 0)]
    lose: u32,
    /// For tests: in each million frames, send this many twice
    #[arg(long, value_name = "N", default_value_t = 0)]
    duplicate: u32,
    /// For tests: in each million frames, delay this many until the next frame has been sent
    #[arg(long, value_name = "N", default_value_t = 0)]
    delay: u32,
    /// For tests: in each million frames, change one bit in this many
    #[arg(long, value_name = "N", default_value_t = 0)]
    corrupt: u32,
    /// For tests: seed for the random choice of the frames to lose, duplicate, delay and corrupt
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

fn name(text: &str) -> Result<String, String> {
    match sovia_control::NicName::parse(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err("expected at most 32 letters, digits, `-` and `_`".into()),
    }
}

/// Carries out the command.
///
/// # Errors
/// An error if the agent cannot begin or continue.
pub(crate) fn agent(args: &Args) -> anyhow::Result<()> {
    match args {
        Args { speak: true, .. } => Err(speak().into()),
        Args { filters: true, socket, .. } => Err(watch_filters(socket)),
        Args { new_key: Some(path), .. } => new_key(path),
        Args { metrics: Some(path), metrics_interval, .. } => {
            let ready = || announce(format_args!("the counters are in {}", path.display()));
            metrics::serve(path, Duration::from_secs(*metrics_interval), ready)
        }
        Args { name: Some(name), device: Some(place), .. } => share(args, name, place),
        Args { name: Some(name), .. } => serve(args, name),
        _ => Err(vouch(&args.socket, &args.user)),
    }
}

/// Watches packet filters until an error.
fn watch_filters(socket: &Path) -> anyhow::Error {
    match FilterAgent::open(socket) {
        Ok(agent) => {
            announce(format_args!("the agent is ready at {}", socket.display()));
            agent.serve().into()
        }
        Err(error) => error.into(),
    }
}

/// Parses the name of the metrics file. The collector ignores files without the suffix `.prom`.
fn metrics_file(path: &str) -> Result<PathBuf, String> {
    if path.ends_with(".prom") {
        Ok(path.into())
    } else {
        Err("the name must end with .prom".to_owned())
    }
}

/// Makes a key pair. Writes the secret key to a file, and prints the public key.
fn new_key(path: &Path) -> anyhow::Result<()> {
    let key = SecretKey::generate()?;
    key.write_new(path).with_context(|| format!("cannot write {}", path.display()))?;
    put_line!("{}", key.public()).inspect_err(|_| {
        // A key whose public half was not printed is useless: other agents could not name this one.
        let _ = fs::remove_file(path);
    })
}

/// Prints that the agent is ready. The agent serves even if its output cannot be written.
fn announce(what: fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout(), "{what}");
}

/// Runs a NIC until a signal ends it.
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
    // Programs can connect from here on. A script waits for this line.
    announce(format_args!("the NIC {name} is ready"));
    Ok(nic.serve(Some(&orders))?)
}

/// Shares a port until a signal ends it.
fn share(args: &Args, name: &str, place: &Place) -> anyhow::Result<()> {
    let own = sovia_sys::call::geteuid();
    let uids = args.serve.iter().map(|user| databases::user(user));
    let mut users = uids.collect::<anyhow::Result<Vec<u32>>>()?;
    if users.is_empty() {
        users.push(own);
    }
    // Each user gets a share of the program slots.
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
        // The kernel has chosen the port number.
        Place::Udp(address) if address.port() == 0 => {
            announce(format_args!("the port {name} is ready at udp:{}", switch.own()));
        }
        _ => announce(format_args!("the port {name} is ready")),
    }
    Ok(switch.serve(Some(&orders))?)
}

/// Returns the connection to other NICs that the arguments describe.
fn way(args: &Args) -> anyhow::Result<Way> {
    if let Some(port) = &args.port {
        let [peer] = &args.peer[..] else {
            wrong!("--port needs one --peer: the socket of the other NIC");
        };
        return Ok(Way::Local { port: port.clone(), peer: peer.into() });
    }
    let (Some(listen), Some(path)) = (args.listen, &args.key) else {
        wrong!("--name needs --listen and --key, or --device");
    };
    if listen.ip().is_unspecified() || listen.port() == 0 {
        wrong!(
            "--listen {listen}: expected an address of this host and a port, as other agents have them in --peer"
        );
    }
    let key = SecretKey::read(path).with_context(|| {
        format!("cannot read the key {} (`sovia agent --new-key FILE` makes a key)", path.display())
    })?;
    let peers = Peers::new(key.public(), listen, named_peers(args)?)?;
    Ok(Way::Network(HostsConfig { listen, key, peers }))
}

/// Returns the peers that the arguments and the file name.
fn named_peers(args: &Args) -> anyhow::Result<Vec<Named>> {
    let named = |text: &String| -> anyhow::Result<Named> {
        let origin = format!("--peer {text}");
        let peer = text.parse::<Peer>().with_context(|| origin.clone()).map_err(usage)?;
        Ok(Named { origin, peer })
    };
    let mut peers = args.peer.iter().map(named).collect::<anyhow::Result<Vec<_>>>()?;
    if !args.peer_network.is_empty() {
        let ([one], [text], None) = (&mut peers[..], &args.peer[..], &args.peers) else {
            wrong!(
                "cannot use --peer-network with several agents: \
                 write --peer KEY@IP:PORT,NETWORK,... for each agent"
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

/// Vouches for programs until an error.
fn vouch(socket: &Path, user: &str) -> anyhow::Error {
    let (uid, gid) = match databases::user_and_group(user) {
        Ok(found) => found,
        Err(error) => return error,
    };
    let mut front_end = Command::new("/proc/self/exe");
    front_end.args(["agent", "--speak"]).env_clear().current_dir("/").uid(uid).gid(gid);
    match Voucher::open(socket, front_end) {
        Ok(voucher) => {
            announce(format_args!("the agent is ready at {}", socket.display()));
            voucher.serve().into()
        }
        Err(error) => error.into(),
    }
}
