//! Seeking the other end of a connection by the agent of this host, where this process cannot see who has it: it is in another
//! network namespace, or a sandbox keeps one of the two from asking the kernel.
//!
//! The agent answers with one end of a socket to the process that has the other end. What comes on it is from that process: the
//! agent has had the kernel show that the two have the ends of *one* connection. On that socket the two meet as strangers.
//!
//! No agent, or one that is not root's: the connection stays on TCP. One that is started again is found again; what two
//! processes share does not need it.

use crate::conn::Role;
use crate::message::Link;
use crate::{agents, config};
use sovia_proto::agent::{SAID, Said, What};
use sovia_sys::datagram::{Datagram, Received};
use sovia_sys::seqpacket::Packets;
use sovia_sys::{Errno, Fd, clock};
use std::collections::BTreeMap;

/// Nanoseconds after which an agent that did not answer is looked for again.
const RETRY_NS: u64 = 5_000_000;

/// This process's connection to the agent.
pub(super) struct Agent {
    packets: Option<Packets>,
    /// What it seeks, and what has been found and not been taken yet.
    sought: BTreeMap<u64, Option<Datagram>>,
    next: u64,
    /// When the agent was last looked for.
    tried: u64,
}

/// How a search stands.
pub(super) enum Search {
    /// The agent has heard of it.
    Begun(u64),
    /// The agent cannot be reached now.
    Later,
    /// There is none.
    NoAgent,
}

impl Agent {
    pub(super) const fn new() -> Agent {
        Agent { packets: None, sought: BTreeMap::new(), next: 1, tried: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.packets = None;
        self.sought.clear();
    }

    /// Seeks the other end of `link`, of which this process has the end of that role.
    pub(super) fn seek(&mut self, link: &Link, role: Role) -> Search {
        if self.packets.is_none() {
            match self.connect() {
                Ok(packets) => self.packets = Some(packets),
                Err(Errno::EAGAIN | Errno::ECONNREFUSED) => return Search::Later,
                Err(_) => return Search::NoAgent,
            }
        }
        let Some(packets) = &self.packets else { return Search::Later };
        let what = What::Seek(link.of_role(role == Role::Connector));
        match packets.send(&Said { id: self.next, what }.encode(), &[]) {
            Ok(()) => {
                self.next += 1;
                self.sought.insert(self.next - 1, None);
                Search::Begun(self.next - 1)
            }
            Err(Errno::EAGAIN) => Search::Later,
            Err(_) => {
                self.clear();
                Search::Later
            }
        }
    }

    /// Whether a search still is under way.
    pub(super) fn seeks(&self, id: u64) -> bool {
        self.sought.contains_key(&id)
    }

    /// The socket to the process with the other end, once the agent has found it.
    pub(super) fn found(&mut self, id: u64) -> Option<Datagram> {
        self.hear();
        self.sought.get(&id)?.as_ref()?;
        self.sought.remove(&id)?
    }

    /// It is not sought any longer.
    pub(super) fn forget(&mut self, id: u64) {
        if self.sought.remove(&id).is_some()
            && let Some(packets) = &self.packets
            && packets.send(&Said { id, what: What::Forget }.encode(), &[]).is_err()
        {
            // Else the agent would go on seeking for it.
            self.clear();
        }
    }

    fn hear(&mut self) {
        while let Some(packets) = &self.packets {
            let mut buffer = [0; SAID + 1];
            match packets.receive(&mut buffer) {
                Ok(received) if received.len == SAID => self.take(&buffer[..SAID], received),
                Err(Errno::EAGAIN) => return,
                // It has ended, or is of another version.
                _ => self.clear(),
            }
        }
    }

    fn take(&mut self, bytes: &[u8], received: Received) {
        let Some(Said { id, what: What::Found }) = Said::decode(bytes) else { return self.clear() };
        // Perhaps of what is not sought any longer.
        let Some(sought) = self.sought.get_mut(&id) else { return };
        let end =
            <[Fd; 1]>::try_from(received.fds).ok().and_then(|[end]| Datagram::of_pair(end).ok());
        if end.is_none() {
            self.sought.remove(&id);
            return;
        }
        *sought = end;
    }

    fn connect(&mut self) -> sovia_sys::Result<Packets> {
        let path = config::agent().ok_or(Errno::ENOENT)?;
        let now = clock::now_ns();
        if now.saturating_sub(self.tried) < RETRY_NS {
            return Err(Errno::EAGAIN);
        }
        self.tried = now;
        agents::connect(path)
    }
}
