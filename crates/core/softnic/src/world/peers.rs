//! VIs that look for each other (peer-to-peer).

use crate::ids::ViId;
use std::collections::{BTreeMap, VecDeque};
use via::NetAddress;

/// VIs that look for a peer, by their own address and the peer's address.
#[derive(Debug, Default)]
pub(crate) struct Peers(BTreeMap<(NetAddress, NetAddress), VecDeque<ViId>>);

impl Peers {
    pub(crate) fn add(&mut self, local: &NetAddress, remote: &NetAddress, vi: ViId) {
        self.0.entry((local.clone(), remote.clone())).or_default().push_back(vi);
    }

    pub(crate) fn remove(&mut self, local: &NetAddress, remote: &NetAddress, vi: ViId) {
        let key = (local.clone(), remote.clone());
        if let Some(vis) = self.0.get_mut(&key) {
            vis.retain(|&other| other != vi);
            if vis.is_empty() {
                self.0.remove(&key);
            }
        }
    }

    /// Returns the VIs that look from `local` for `remote`, the longest waiting first.
    pub(crate) fn between(&self, local: &NetAddress, remote: &NetAddress) -> Vec<ViId> {
        let vis = self.0.get(&(local.clone(), remote.clone()));
        vis.into_iter().flatten().copied().collect()
    }
}
