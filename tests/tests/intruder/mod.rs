//! An intruder at the rendezvous names, which is no end of a connection. It finds names and processes as
//! any user of the machine can, forges messages, and sends them with any descriptors.

pub(crate) mod kernel;
pub(crate) mod message;

use kernel::{Connection, Uid};
use message::Forgery;
use sovia_tests::{Observation, Pairing, Scenario, TempDir};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Actions of an intruder each time that it looks around.
pub(crate) type Intrusion = fn(&mut Intruder, &Scene);

/// Connections and names that the intruder has found.
pub(crate) struct Scene {
    /// Connections to the server.
    pub(crate) connections: Vec<Connection>,
    /// Connections that it has not seen before.
    pub(crate) fresh: Vec<Connection>,
    /// Abstract names that the server's process is bound to.
    pub(crate) inboxes: Vec<Vec<u8>>,
}

/// The intruder itself.
pub(crate) struct Intruder {
    voice: kernel::Voice,
    /// Names that it has bound.
    pub(crate) squats: BTreeMap<Vec<u8>, OwnedFd>,
    /// Connections seen so far.
    pub(crate) seen: BTreeSet<SocketAddr>,
}

impl Intruder {
    fn new(uid: Uid) -> Intruder {
        let voice = kernel::Voice::new(uid);
        Intruder { voice, squats: BTreeMap::new(), seen: BTreeSet::new() }
    }

    /// Sends bytes and descriptors to a name, which may have no socket.
    pub(crate) fn send(&self, name: &[u8], bytes: &[u8], fds: Vec<OwnedFd>) {
        self.voice.say(name.to_vec(), bytes.to_vec(), fds);
    }

    /// Sends an offer to an acceptor, after a proof that this process could trace the acceptor.
    pub(crate) fn offer(&self, name: &[u8], bytes: &[u8], fds: Vec<OwnedFd>) {
        self.voice.say_proven(name.to_vec(), bytes.to_vec(), fds);
    }

    /// Sends a message to the name that the connector of `connection` has bound.
    pub(crate) fn to_connector(&self, connection: &Connection, bytes: &[u8], fds: Vec<OwnedFd>) {
        self.send(&rendezvous(connection), bytes, fds);
    }
}

/// Returns the rendezvous name of a connection.
pub(crate) fn rendezvous(connection: &Connection) -> Vec<u8> {
    format!("sovia/{}-{}", connection.connector, connection.acceptor).into_bytes()
}

/// Runs a case of the crowd together with an intruder of this user. Checks that only the counters
/// show the intruder.
pub(crate) fn undisturbed(uid: Uid, intrusion: Intrusion) -> Dropped {
    undisturbed_by(|notes, done| intrude(uid, intrusion, notes, done))
}

/// Runs `work` until the connections are over. It gets the folder with the crowd's notes.
///
/// An end without an answer stays at the rendezvous for longer. So each end must withstand the
/// intruder alone too.
pub(crate) fn undisturbed_by(work: impl Fn(&Path, &AtomicBool) + Sync) -> Dropped {
    let mut dropped = Dropped(BTreeMap::new());
    for plain in ["neither", "server", "client"] {
        let notes = TempDir::new();
        let done = AtomicBool::new(false);
        let observation = thread::scope(|scope| {
            scope.spawn(|| work(notes.path(), &done));
            let scenario = Scenario::c("crowd", "come_and_go").detailed();
            // Make the ends meet, however short their connections are.
            let scenario = scenario.env("SOVIA_MEET", 3);
            let scenario = scenario.env("SOVIA_TESTS_NOTES", notes.path().display());
            let observation = scenario.env("SOVIA_TESTS_PLAIN", plain).observe(Pairing::SOVIA);
            done.store(true, Ordering::Relaxed);
            observation
        });
        check(plain, &observation);
        dropped.add(&observation);
    }
    dropped
}

fn intrude(uid: Uid, intrusion: Intrusion, notes: &Path, done: &AtomicBool) {
    let mut intruder = Intruder::new(uid);
    let mut server = None;
    while !done.load(Ordering::Relaxed) {
        server = server.or_else(|| {
            let port = fs::read_to_string(notes.join("port")).ok()?.trim().parse().ok()?;
            kernel::Listener::at(SocketAddr::from(([127, 0, 0, 1], port)))
        });
        if let Some(server) = &server {
            let connections = server.connections();
            let fresh = connections.iter().filter(|c| intruder.seen.insert(c.connector));
            let fresh = fresh.cloned().collect();
            intrusion(&mut intruder, &Scene { connections, fresh, inboxes: server.names() });
        }
        thread::sleep(Duration::from_micros(300));
    }
}

fn check(plain: &str, observation: &Observation) {
    let (_, server) = &observation.ends[0];
    let (_, client) = &observation.ends[1];
    let all = format!("without the library: {plain}\nserver: {server:#?}\nclient: {client:#?}");
    assert_eq!(server.transcript(), "served to the end\nend\nstatus 0\n", "{all}");
    let expected = "24 connections carried everything\nnone was held up\nend\nstatus 0\n";
    assert_eq!(client.transcript(), expected, "{all}");
}

/// Numbers of dropped messages in both ends' summaries, by kind.
#[derive(Debug)]
pub(crate) struct Dropped(BTreeMap<String, u64>);

impl Dropped {
    fn add(&mut self, observation: &Observation) {
        for (_, outcome) in &observation.ends {
            let mut lines = outcome.stderr.lines();
            lines
                .find(|line| line.starts_with("sovia: ignored while ends looked for each other: "));
            for line in lines.map_while(|line| line.strip_prefix("sovia:   ")) {
                let Some((count, kind)) = line.trim().split_once("  ") else { break };
                let count: u64 = count.replace(',', "").parse().unwrap_or(0);
                *self.0.entry(kind.to_string()).or_insert(0) += count;
            }
        }
    }
}

/// Repeats this until a message of this kind has been dropped, because an intruder may come too
/// late.
#[track_caller]
pub(crate) fn dropped(kind: &str, uid: Uid, intrusion: Intrusion) {
    let mut all = Vec::new();
    for _ in 0..5 {
        let seen = undisturbed(uid, intrusion);
        if seen.0.contains_key(kind) {
            return;
        }
        all.push(seen);
    }
    panic!("none {kind}: {all:?}");
}

/// Forges messages about every connection again and again: a Hello for the connector, and an Offer
/// with all its descriptors for the acceptor.
pub(crate) fn to_both_ends(
    intruder: &Intruder,
    scene: &Scene,
    forge: impl Fn(&Forgery, &mut dyn FnMut(&[u8])),
) {
    for connection in &scene.connections {
        forge(&Forgery::about(connection), &mut |bytes| {
            intruder.to_connector(connection, bytes, Vec::new());
        });
    }
    // Only once, so that messages in the acceptor's inbox are about the present connection.
    for connection in &scene.fresh {
        forge(&Forgery::by_connector(connection, message::OFFER), &mut |bytes| {
            for inbox in &scene.inboxes {
                intruder.send(inbox, bytes, kernel::offering());
            }
        });
    }
}
