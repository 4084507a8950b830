//! Steps that both sides of a new connection need.

use crate::agent::Agent;
use crate::agent::role::Attempt;
use crate::slot::lock;
use crate::state::{Core, Link, ViShared};
use sovia_verbs::pair::Size;
use sovia_verbs::{Cq, Error, Id, Pair, Rights};
use std::net::SocketAddr;
use std::sync::Arc;
use via::ViAttributes;
use via::error::ConnectError;

impl Agent {
    /// Makes a queue pair for a VI, and posts the VI's receives to it.
    pub(super) fn link(
        &self,
        vi: &Arc<ViShared>,
        id: &Id,
        name: u64,
        peer: SocketAddr,
    ) -> Result<Link, Error> {
        let config = &self.card.config;
        let ptag = lock(&vi.core).ptag;
        let cq = Cq::new(&self.card.channel, config.depth * 2 + 2, vi.name)?;
        let size = Size {
            sends: config.depth,
            receives: config.depth,
            segments: config.segments,
            inline: config.inline,
        };
        let pair = Pair::new(&self.card.regions.domain(ptag)?, &cq, size)?;
        pair.start(id)?;
        Ok(Link::new(pair, name, peer, self.card.token(vi)))
    }
}

/// Ends an attempt of a VI with an error.
pub(super) fn fail(name: u64, attempt: &Attempt, error: ConnectError) {
    let core = &mut *lock(&attempt.vi.core);
    if core.attempt == Some(name) {
        refused(&attempt.vi, core, error);
    }
}

/// Like [`fail`], for a VI that still has the attempt.
pub(super) fn refused(vi: &ViShared, core: &mut Core, error: ConnectError) {
    vi.unmade(core);
    if let Some(slot) = &core.result {
        slot.put(Err(error));
    }
    vi.news.notify_all();
}

pub(super) fn rights(attributes: &ViAttributes) -> Rights {
    Rights { write: attributes.enable_rdma_write, read: attributes.enable_rdma_read }
}

pub(super) fn system(error: &Error) -> ConnectError {
    match error {
        Error::Call { call, .. } => {
            ConnectError::System { call, errno: error.errno().unwrap_or(0) }
        }
        Error::Library(_) => ConnectError::Resource("rdma-core"),
    }
}
