//! Carrier of the messages: EMP, or TCP on the same devices.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::ValueEnum;
use emp_eth::{Address, Config, Handle, Mode, Node, Piece, Place, PostError, Station, Status};
use nix::sys::socket::{setsockopt, sockopt};
use serde::{Deserialize, Serialize};

use crate::measure::bench::papers::net::{self, DEVICE, Port};
use crate::measure::bench::task::Role;

/// A way for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Way {
    /// TCP with buffers of 64 KB at both ends and blocking calls
    Tcp,
    /// TCP with the same buffers and non-blocking calls in a loop
    TcpPoll,
    /// EMP whose NIC works during the program's calls
    EmpCalls,
    /// EMP whose NIC is a thread
    EmpThread,
}

impl Way {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::TcpPoll => "tcp-poll",
            Self::EmpCalls => "emp-calls",
            Self::EmpThread => "emp-thread",
        }
    }
}

/// Size of TCP's buffers in bytes, as in the paper.
const BUFFER: usize = 64 << 10;
/// Key that both stations share.
const KEY: u64 = 0x53ca_1e01;
/// Tag of all messages.
const TAG: u32 = 1;
/// Longest message in bytes.
pub(super) const MOST: usize = 1 << 20;

/// An end of a carrier, with buffers for sending and receiving.
pub(super) enum Carrier {
    Tcp {
        stream: TcpStream,
        buffer: Vec<u8>,
        /// Lengths of the expected messages.
        awaited: Vec<usize>,
    },
    Emp {
        station: Station,
        peer: Node,
        out: Vec<u8>,
        /// A buffer for each receive that may be posted at a time.
        rooms: Vec<Vec<u8>>,
        next: usize,
        receives: Vec<Handle>,
        sends: Vec<Handle>,
    },
}

/// Largest number of receives posted at a time.
const ROOMS: usize = 64;

/// An end that does not know its peer yet.
pub(super) enum Open {
    Tcp(TcpListener, bool),
    Emp(Station),
}

impl Open {
    /// Opens an end in this process's namespace.
    pub(super) fn new(way: Way, port: Port, role: Role, nic: (u32, bool)) -> anyhow::Result<Self> {
        let host = net::address(role);
        Ok(match way {
            Way::Tcp | Way::TcpPoll => Self::Tcp(
                TcpListener::bind((host, 0)).context("cannot listen")?,
                way == Way::TcpPoll,
            ),
            Way::EmpCalls | Way::EmpThread => {
                let place = match port {
                    Port::Udp => Place::Udp((host, 0).into()),
                    Port::Eth => Place::Device(DEVICE.to_owned()),
                    Port::Xdp => Place::Xdp(DEVICE.to_owned()),
                    Port::Ofi => {
                        bail!("cannot carry EMP's frames over libfabric: expected udp, eth or xdp")
                    }
                };
                let mut config = Config::new(place, KEY);
                config.takes_strangers = true;
                if way == Way::EmpThread {
                    config.mode = Mode::Thread { processor: Some(nic.0) };
                    if !nic.1 {
                        // A NIC thread that polls all the time would take an end's processor.
                        config.spin = Duration::ZERO;
                    }
                }
                Self::Emp(Station::open(&config)?)
            }
        })
    }

    /// Returns the end's address, for the peer.
    pub(super) fn place(&self) -> anyhow::Result<String> {
        Ok(match self {
            Self::Tcp(listener, _) => listener.local_addr()?.to_string(),
            Self::Emp(station) => station.address().to_string(),
        })
    }

    /// Waits for the peer.
    pub(super) fn accept(self) -> anyhow::Result<Carrier> {
        match self {
            Self::Tcp(listener, polls) => Carrier::over(listener.accept()?.0, polls),
            // The peer that sends first becomes peer 0.
            Self::Emp(station) => Ok(Carrier::on(station, 0)),
        }
    }
}

impl Carrier {
    /// Opens the requester's end, and connects it to the peer at `place`.
    pub(super) fn connect(
        way: Way,
        port: Port,
        nic: (u32, bool),
        place: &str,
    ) -> anyhow::Result<Self> {
        if matches!(way, Way::Tcp | Way::TcpPoll) {
            let place: SocketAddr = place.parse()?;
            return Self::over(TcpStream::connect(place)?, way == Way::TcpPoll);
        }
        let Open::Emp(station) = Open::new(way, port, Role::Requester, nic)? else {
            anyhow::bail!("this end has no EMP station")
        };
        let peer =
            station.add_peer(&address(place).context("cannot read the peer's address")?, KEY)?;
        Ok(Self::on(station, peer))
    }

    fn over(stream: TcpStream, polls: bool) -> anyhow::Result<Self> {
        setsockopt(&stream, sockopt::SndBuf, &BUFFER)?;
        setsockopt(&stream, sockopt::RcvBuf, &BUFFER)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(polls)?;
        Ok(Self::Tcp { stream, buffer: vec![7; MOST], awaited: Vec::new() })
    }

    fn on(station: Station, peer: Node) -> Self {
        Self::Emp {
            station,
            peer,
            out: vec![7; MOST],
            rooms: vec![vec![0; MOST]; ROOMS],
            next: 0,
            receives: Vec::new(),
            sends: Vec::new(),
        }
    }

    /// Posts a receive for a message of `len` bytes, like MPI's Irecv. With TCP this only records the length.
    pub(super) fn post_receive(&mut self, len: usize) -> anyhow::Result<()> {
        match self {
            Self::Tcp { awaited, .. } => awaited.push(len),
            Self::Emp { station, rooms, next, receives, .. } => {
                let room = &mut rooms[*next];
                *next = (*next + 1) % ROOMS;
                let piece = Piece { address: room.as_mut_ptr() as u64, length: len.min(MOST) };
                // SAFETY: this carrier owns the buffer, does not use its bytes, and keeps it longer than the station.
                let posted = unsafe { station.post_receive(None, Some(TAG), &[piece]) };
                receives.push(
                    posted.map_err(|why| {
                        anyhow::anyhow!("cannot post a receive: {}", refusal(why))
                    })?,
                );
            }
        }
        Ok(())
    }

    /// Sends a message, like MPI's Isend. With TCP, the kernel has copied the message when this returns.
    pub(super) fn post_send(&mut self, len: usize) -> anyhow::Result<()> {
        match self {
            Self::Tcp { stream, buffer, .. } => write_all(stream, &buffer[..len])?,
            Self::Emp { station, peer, out, sends, .. } => {
                let piece = Piece { address: out.as_ptr() as u64, length: len.min(MOST) };
                // SAFETY: this carrier owns the buffer, never changes its bytes, and keeps it longer than the station.
                let posted = unsafe { station.post_send(*peer, TAG, &[piece]) };
                sends.push(
                    posted
                        .map_err(|why| anyhow::anyhow!("cannot post a send: {}", refusal(why)))?,
                );
            }
        }
        Ok(())
    }

    /// Waits for the oldest posted receive.
    pub(super) fn wait_receive(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Tcp { stream, buffer, awaited } => {
                let len = awaited.remove(0);
                read_all(stream, &mut buffer[..len])
            }
            Self::Emp { station, receives, .. } => wait(station, receives.remove(0)),
        }
    }

    /// Waits until at most `left` sends are in progress.
    pub(super) fn wait_sends(&mut self, left: usize) -> anyhow::Result<()> {
        if let Self::Emp { station, sends, .. } = self {
            while sends.len() > left {
                wait(station, sends.remove(0))?;
            }
        }
        Ok(())
    }

    /// Waits for all posted receives and sends, like MPI's Waitall.
    pub(super) fn wait_all(&mut self) -> anyhow::Result<()> {
        let receives = match self {
            Self::Tcp { awaited, .. } => awaited.len(),
            Self::Emp { receives, .. } => receives.len(),
        };
        for _ in 0..receives {
            self.wait_receive()?;
        }
        self.wait_sends(0)
    }

    /// Describes the carrier of the frames.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Tcp { .. } => "TCP".to_owned(),
            Self::Emp { station, .. } => {
                let counters = station.counters();
                let nic = counters.nic;
                format!(
                    "{}; {} groups of frames acknowledged together, {} frames sent again, {} time-outs, {} frames dropped",
                    counters.mode, nic.collections, nic.resent, nic.timeouts, nic.dropped
                )
            }
        }
    }
}

/// Parses an address in a station's text form.
fn address(text: &str) -> Option<Address> {
    if let Ok(udp) = text.parse() {
        return Some(Address::Udp(udp));
    }
    let bytes: Option<Vec<u8>> =
        text.split(':').map(|part| u8::from_str_radix(part, 16).ok()).collect();
    Some(Address::Mac(bytes?.try_into().ok()?))
}

fn wait(station: &Station, handle: Handle) -> anyhow::Result<()> {
    let outcome = station.wait(handle, Some(Duration::from_secs(60)));
    let outcome = outcome.map_err(|_| anyhow::anyhow!("unknown transfer"))?;
    let status = outcome.context("no transfer completed for a minute")?.status;
    match failure(status) {
        None => Ok(()),
        Some(why) => bail!("cannot complete a transfer: {why}"),
    }
}

/// Returns the reason why a transfer was not posted.
fn refusal(why: PostError) -> &'static str {
    match why {
        PostError::Full => "too few descriptors are free",
        PostError::TooLong => "the message is too long for EMP",
        PostError::UnknownNode => "the peer is not known to this station",
        PostError::Address => "the buffer's address has more than 48 bits",
    }
}

/// Returns the reason why a transfer failed; `None` if the whole message has arrived.
fn failure(status: Status) -> Option<&'static str> {
    Some(match status {
        Status::Done => return None,
        Status::TooLong => "the message was longer than the receive",
        Status::PeerDead => {
            "the peer does not answer; is the other `sovia bench emp` still running?"
        }
        Status::PeerRestarted => "the peer was restarted during the measurement",
        Status::Cancelled => "the receive was cancelled",
        Status::UnknownNode => "the peer is not known to this station",
        Status::Closed => "this end has closed its station",
    })
}

fn write_all(stream: &mut TcpStream, mut bytes: &[u8]) -> anyhow::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(why) if why.kind() == ErrorKind::WouldBlock => {}
            Err(why) => return Err(why.into()),
        }
    }
    Ok(())
}

fn read_all(stream: &mut TcpStream, mut room: &mut [u8]) -> anyhow::Result<()> {
    while !room.is_empty() {
        match stream.read(room) {
            Ok(0) => anyhow::bail!("the peer closed the connection"),
            Ok(read) => room = &mut room[read..],
            Err(why) if why.kind() == ErrorKind::WouldBlock => {}
            Err(why) => return Err(why.into()),
        }
    }
    Ok(())
}
