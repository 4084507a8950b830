//! Resets the TCP connections below libfabric again and again, while VIs between two hosts carry long messages and RDMA
//! writes. Each VI must deliver every byte or break at both ends, and its end must return.

use crate::hosts::Hosts;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use via::error::ConnectError;
use via::{
    Cause, Connection, Control, DescriptorAddress, MemAttributes, MemHandle, Memory, Nic,
    RemoteSegment, Vi, ViAttributes, ViState,
};
use via_ofi::{Config, OfiNic, OfiVi, counts};

/// Watchdog time.
const PATIENCE: Duration = Duration::from_secs(240);
/// Size of a buffer in bytes.
const LONGEST: usize = 1 << 20;
/// Offsets of the descriptors, and of the buffers for receives, for the peer's writes and for sends.
const RECEIVE: usize = 0;
const SEND: usize = 256;
const IN: usize = 4096;
const WRITTEN: usize = IN + LONGEST;
const OUT: usize = WRITTEN + LONGEST;
/// Number of VIs that exchange messages all the time.
const BUSY: usize = 3;
/// Number of connections that are reset.
const RESETS: usize = 100;

/// Length of each exchange's message, and true for an RDMA write. The exchanges use frames, moves, and moves for RDMA
/// writes.
const KINDS: [(usize, bool); 5] =
    [(LONGEST, false), (64 << 10, true), (20_000, false), (LONGEST, true), (100, false)];

fn config(host: usize) -> Config {
    Config::new(format!("tcp;ofi_rxm@10.0.0.{}", host + 1).parse().expect("a place"))
}

/// An end of a connection, with its memory.
struct End {
    vi: OfiVi,
    memory: Memory,
    handle: MemHandle,
    /// Address of the peer's [`WRITTEN`].
    target: RemoteSegment,
}

impl End {
    /// Makes an end, and sends the address of its memory through `tell`.
    fn new(nic: &OfiNic, tell: &mpsc::Sender<RemoteSegment>) -> End {
        let attributes = ViAttributes {
            max_transfer_size: LONGEST as u32,
            enable_rdma_write: true,
            ..ViAttributes::default()
        };
        let memory = Memory::zeroed(OUT + LONGEST);
        let writable = MemAttributes { enable_rdma_write: true, ..MemAttributes::default() };
        let handle = nic.register_mem(&memory, writable).expect("a region");
        let own = RemoteSegment { address: memory.address(WRITTEN), handle: handle.raw() };
        tell.send(own).expect("the other end lives");
        let vi = nic.create_vi(attributes).expect("a VI");
        End { vi, memory, handle, target: own }
    }

    fn at(&self, descriptor: usize) -> DescriptorAddress {
        DescriptorAddress { address: self.memory.address(descriptor), handle: self.handle }
    }

    fn receive(&self) {
        let data = self.memory.segment(IN, LONGEST as u32, self.handle);
        self.memory.descriptor(RECEIVE).expect("room").prepare(&[data], None).expect("it fits");
        // A broken VI refuses the descriptor.
        let _ = self.vi.post_recv(self.at(RECEIVE));
    }

    /// Sends the message of exchange `n`. Returns false if the VI has broken.
    fn send(&self, n: usize) -> bool {
        let (len, is_write) = KINDS[n % KINDS.len()];
        self.memory.write(OUT, &bytes(n, len));
        let data = [self.memory.segment(OUT, len as u32, self.handle)];
        let descriptor = self.memory.descriptor(SEND).expect("room");
        let prepared = match is_write {
            true => descriptor.prepare_rdma(Control::OP_RDMAWRITE, self.target, &data, Some(7)),
            false => descriptor.prepare(&data, None),
        };
        prepared.expect("it fits");
        let posted = self.vi.post_send(self.at(SEND));
        posted.is_ok() && {
            let done = self.vi.send_wait(Some(PATIENCE)).expect("the send ends");
            done.result().is_ok()
        }
    }

    /// Receives and checks the message of exchange `n`. Returns false if the VI has broken.
    fn received(&self, n: usize) -> bool {
        let done = self.vi.recv_wait(Some(PATIENCE)).expect("the receive ends");
        if done.result().is_err() {
            return false;
        }
        let (len, is_write) = KINDS[n % KINDS.len()];
        let mut came = vec![0; len];
        self.memory.read(if is_write { WRITTEN } else { IN }, &mut came);
        assert!(came == bytes(n, len), "exchange {n} has other bytes");
        true
    }

    /// Disconnects the VI, and deregisters its memory.
    fn end(self, nic: &OfiNic) {
        self.vi.disconnect();
        drop(self.vi);
        nic.deregister_mem(self.handle).expect("nothing uses the memory");
    }
}

fn bytes(n: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 7 + n * 31) as u8).collect()
}

/// Progress of all connections.
#[derive(Default)]
struct Progress {
    /// Number of finished exchanges.
    made: AtomicUsize,
    /// Set when enough connections have been reset.
    enough: AtomicBool,
}

/// Runs a client. A busy client does exchanges while connections are reset. An idle client does one exchange after
/// that. Returns the number of exchanges, and false if the VI has broken.
fn client(end: &End, progress: &Progress, is_busy: bool) -> (usize, bool) {
    let mut made = 0;
    loop {
        let is_last = progress.enough.load(Ordering::Acquire);
        if is_busy || is_last {
            end.receive();
            if !end.send(made) || !end.received(made) {
                return (made, false);
            }
            made += 1;
            progress.made.fetch_add(1, Ordering::AcqRel);
        } else {
            thread::sleep(Duration::from_millis(1));
        }
        if is_last {
            return (made, true);
        }
    }
}

/// Runs a server, which returns messages until its VI ends. Returns the number of messages.
fn server(end: &End) -> usize {
    for n in 0.. {
        if !end.received(n) {
            return n;
        }
        end.receive();
        if !end.send(n) {
            return n;
        }
    }
    unreachable!("it sends for as long as something comes")
}

/// Resets all TCP connections of this host. Returns their number.
fn reset() -> usize {
    let output = Command::new("ss").args(["-KHtn", "state", "established"]).output();
    String::from_utf8_lossy(&output.expect("ss starts").stdout).lines().count()
}

/// Runs one connection from beginning to end, with a thread for each end. Returns true if the VI did not break.
fn connection(hosts: &Hosts, nics: [&OfiNic; 2], progress: &Progress, number: usize) -> bool {
    let name = format!("server {number}");
    let address = nics[0].address(name.as_bytes());
    let ((to_client, of_server), (to_server, of_client)) = (mpsc::channel(), mpsc::channel());
    thread::scope(|s| {
        let serving = s.spawn({
            let address = address.clone();
            move || {
                hosts.enter(0);
                let mut end = End::new(nics[0], &to_client);
                end.target = of_client.recv().expect("the client lives");
                end.receive();
                let request = nics[0].connect_wait(&address, Some(PATIENCE)).expect("a request");
                request.accept(&end.vi).expect("accepted");
                let made = server(&end);
                let cause = end.vi.cause();
                end.end(nics[0]);
                (made, cause)
            }
        });
        let asking = s.spawn(move || {
            hosts.enter(1);
            let mut end = End::new(nics[1], &to_server);
            end.target = of_server.recv().expect("the server lives");
            let own = nics[1].address(format!("client {number}").as_bytes());
            while end.vi.connect_request(&own, &address, Some(PATIENCE))
                == Err(ConnectError::NoMatch)
            {
                thread::yield_now();
            }
            assert_eq!(end.vi.state(), ViState::Connected);
            let (made, is_whole) = client(&end, progress, number < BUSY);
            assert!(is_whole || end.vi.state() == ViState::Error);
            end.end(nics[1]);
            (made, is_whole)
        });
        let (asked, is_whole) = asking.join().expect("the client");
        let (served, cause) = serving.join().expect("the server");
        println!("connection {number}: {asked} exchanges, {served} served, {cause:?}");
        if is_whole {
            assert_eq!((served, cause), (asked, Some(Cause::PeerDisconnected)));
        }
        is_whole
    })
}

#[test]
fn vis_outlive_or_break_when_connections_below_libfabric_are_reset() {
    let test = "vis_outlive_or_break_when_connections_below_libfabric_are_reset";
    let skipped = |why: &str| println!("SKIPPED: {test}: {why}");
    let hosts = match Hosts::make() {
        Ok(hosts) => hosts,
        Err(why) => return skipped(&why),
    };
    if Command::new("ss").arg("-V").output().is_err() {
        return skipped("there is no ss");
    }
    let open = |host| hosts.at(host, || config(host).open());
    let (one, two) = match (open(0), open(1)) {
        (Ok(one), Ok(two)) => (one, two),
        (Err(why), _) | (_, Err(why)) => return skipped(&why.to_string()),
    };
    let (nics, progress) = ([&one, &two], Progress::default());
    let whole = thread::scope(|s| {
        let (hosts, progress) = (&hosts, &progress);
        // The last client is idle until the resets have ended.
        let all: Vec<_> = (0..=BUSY)
            .map(|number| s.spawn(move || connection(hosts, nics, progress, number)))
            .collect();
        let mut resets = 0;
        while resets < RESETS {
            // Waits for a varying number of exchanges before each reset, unless all connections have ended.
            let until = progress.made.load(Ordering::Acquire) + resets % 7;
            while progress.made.load(Ordering::Acquire) < until
                && !all[..BUSY].iter().all(|it| it.is_finished())
            {
                thread::sleep(Duration::from_micros(300));
            }
            let now = hosts.at(resets % 2, reset);
            if all[..BUSY].iter().all(|it| it.is_finished()) {
                break;
            }
            resets += now;
        }
        progress.enough.store(true, Ordering::Release);
        println!("{resets} connections reset");
        all.into_iter().map(|it| it.join().expect("a connection")).filter(|whole| *whole).count()
    });
    println!("{whole} of {} VIs are whole", BUSY + 1);
    for nic in nics {
        let counts = counts(nic);
        assert_eq!((counts.moves, counts.regions), (0, 0));
    }
}
