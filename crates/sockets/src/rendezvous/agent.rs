//! Queries to the host's agent for the process that holds the other end of a connection. A process sends a query if
//! the kernel cannot report the holder. The holder may be in another network namespace, or one of the two processes
//! may be in a sandbox.
//!
//! The agent answers with a socket that is connected to the holder. Before that, the agent has the kernel prove
//! that the two processes hold the ends of *one* connection. On the socket, the two processes continue the
//! rendezvous as peers by rule.
//!
//! Without an agent, or if the agent does not run as root, the connection stays on TCP. A restarted agent is found
//! again. Connections that are already accelerated do not need the agent.

use crate::conn::Role;
use crate::message::Link;
use crate::{agents, config};
use sovia_proto::agent::{AGENT_MESSAGE, AgentMessage, What};
use sovia_sys::datagram::{Datagram, Received};
use sovia_sys::seqpacket::Packets;
use sovia_sys::{Errno, Fd, clock};
use std::collections::BTreeMap;

/// Nanoseconds after which a process looks again for an agent that did not answer.
const RETRY_NS: u64 = 5_000_000;

/// This process's connection to the agent.
pub(super) struct Agent {
    packets: Option<Packets>,
    /// Queries that are under way, by number. The socket is the agent's answer, until this process takes the
    /// socket.
    queries: BTreeMap<u64, Option<Datagram>>,
    next: u64,
    /// Time of the last attempt to reach the agent.
    tried: u64,
}

/// Result of [`Agent::query`].
pub(super) enum Search {
    /// The query has been sent, and has this number.
    Begun(u64),
    /// The agent cannot be reached now.
    Later,
    /// There is no agent.
    NoAgent,
}

impl Agent {
    pub(super) const fn new() -> Agent {
        Agent { packets: None, queries: BTreeMap::new(), next: 1, tried: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.packets = None;
        self.queries.clear();
    }

    /// Queries the agent for the other end of `link`. This process has the end with `role`.
    pub(super) fn query(&mut self, link: &Link, role: Role) -> Search {
        if self.packets.is_none() {
            match self.connect() {
                Ok(packets) => self.packets = Some(packets),
                Err(Errno::EAGAIN | Errno::ECONNREFUSED) => return Search::Later,
                Err(_) => return Search::NoAgent,
            }
        }
        let Some(packets) = &self.packets else { return Search::Later };
        let what = What::Query(link.of_role(role == Role::Connector));
        match packets.send(&AgentMessage { id: self.next, what }.encode(), &[]) {
            Ok(()) => {
                self.next += 1;
                self.queries.insert(self.next - 1, None);
                Search::Begun(self.next - 1)
            }
            Err(Errno::EAGAIN) => Search::Later,
            Err(_) => {
                self.clear();
                Search::Later
            }
        }
    }

    /// Returns true if the query with this number is still under way.
    pub(super) fn has_query(&self, id: u64) -> bool {
        self.queries.contains_key(&id)
    }

    /// Returns the socket to the process with the other end, once the agent has found that process.
    pub(super) fn found(&mut self, id: u64) -> Option<Datagram> {
        self.receive();
        self.queries.get(&id)?.as_ref()?;
        self.queries.remove(&id)?
    }

    /// Cancels a query.
    pub(super) fn forget(&mut self, id: u64) {
        if self.queries.remove(&id).is_some()
            && let Some(packets) = &self.packets
            && packets.send(&AgentMessage { id, what: What::Forget }.encode(), &[]).is_err()
        {
            // The agent did not receive the cancellation and would go on searching. Closing the connection to the
            // agent cancels all queries.
            self.clear();
        }
    }

    fn receive(&mut self) {
        while let Some(packets) = &self.packets {
            let mut buffer = [0; AGENT_MESSAGE + 1];
            match packets.receive(&mut buffer) {
                Ok(received) if received.len == AGENT_MESSAGE => {
                    self.take(&buffer[..AGENT_MESSAGE], received)
                }
                Err(Errno::EAGAIN) => return,
                // The agent has ended, or its version differs from this library's.
                _ => self.clear(),
            }
        }
    }

    fn take(&mut self, bytes: &[u8], received: Received) {
        let Some(AgentMessage { id, what: What::Found }) = AgentMessage::decode(bytes) else {
            return self.clear();
        };
        // Ignore an answer to a query that was cancelled.
        let Some(answer) = self.queries.get_mut(&id) else { return };
        let end =
            <[Fd; 1]>::try_from(received.fds).ok().and_then(|[end]| Datagram::of_pair(end).ok());
        if end.is_none() {
            self.queries.remove(&id);
            return;
        }
        *answer = end;
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
