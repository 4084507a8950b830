//! Passes posted descriptors to the device.
//!
//! Most descriptors have one segment and need not wait. They take a fast path with the same checks. Other descriptors,
//! and those that fail a check, are read again on the slow path, which reports errors exactly.

use crate::access::{Access, Keyed};
use crate::engine::RECEIVE;
use crate::slot::lock;
use crate::state::{Core, Started, ViShared};
use sovia_verbs::{RegisteredMemory, Rights, Segment};
use via::descriptor::Work;
use via::error::PostError;
use via::{DescriptorAddress, Memory, Status, ViState, WorkQueueKind};

/// A key that no region has.
pub(super) const NO_KEY: u32 = 0;

impl ViShared {
    /// Posts a receive for the program.
    ///
    /// # Errors
    /// [`PostError`].
    pub(crate) fn post_receive(&self, at: DescriptorAddress) -> Result<(), PostError> {
        let core = &mut *lock(&self.core);
        let is_next = core.recv.next().is_none();
        let Core { recv, recent, link, .. } = core;
        let mut access = Access { regions: &self.card.regions, recent, ptag: core.ptag };
        let one = access.post(at, &mut recv.work, WorkQueueKind::Recv)?;
        if let (true, Some(link), Some(one)) = (is_next, link, one)
            && let Ok(segment) = access.key(&one.data)
        {
            let given = link.pair.post_receive(RECEIVE, core::slice::from_ref(&segment));
            let mut started = Started::new(Status::OP_RECEIVE, 0);
            started.failed = given.err().map(|_| Status::TRANSPORT_ERROR);
            recv.started.push_back(started);
            return Ok(());
        }
        if core.state == ViState::Error {
            self.flush(core, WorkQueueKind::Recv);
            self.settle(core);
        } else {
            self.feed_receives(core);
        }
        Ok(())
    }

    /// Posts a send for the program.
    ///
    /// # Errors
    /// [`PostError`].
    pub(crate) fn post_send(&self, at: DescriptorAddress) -> Result<(), PostError> {
        let core = &mut *lock(&self.core);
        if !matches!(core.state, ViState::Connected | ViState::Error) {
            return Err(PostError::State(core.state));
        }
        let is_next = core.send.next().is_none();
        let Core { send, recent, .. } = core;
        let mut access = Access { regions: &self.card.regions, recent, ptag: core.ptag };
        let one = access.post(at, &mut send.work, WorkQueueKind::Send)?;
        match one {
            Some(one) if is_next && self.send_one(core, &one) => {}
            _ if core.state == ViState::Error => self.flush(core, WorkQueueKind::Send),
            _ => self.feed_sends(core),
        }
        if core.wants() {
            self.arm(core);
        }
        self.settle(core);
        Ok(())
    }

    /// Passes posted receives to the device.
    pub(crate) fn feed_receives(&self, core: &mut Core) {
        while core.link.is_some()
            && let Some(at) = core.recv.next()
        {
            let loaded = core.access(&self.card).load(at, WorkQueueKind::Recv);
            let started = self.start_receive(core, loaded.as_ref().map_err(|status| *status));
            core.recv.started.push_back(started);
        }
    }

    fn start_receive(&self, core: &mut Core, loaded: Result<&Work, Status>) -> Started {
        let mut started = Started::new(Status::OP_RECEIVE, 0);
        let mut segments = Keyed::new();
        let keyed = loaded.and_then(|work| {
            core.access(&self.card).keyed(&work.data, &mut segments)?;
            Ok(work)
        });
        match keyed {
            Ok(_) if segments.len() <= self.card.config.segments as usize => {}
            Ok(work) => {
                segments.clear();
                match self.copy_of(core, work) {
                    Some((segment, copy)) => {
                        segments.push(segment);
                        started.copy = Some(Box::new((copy, work.data.clone())));
                    }
                    None => started.failed = Some(Status::PROTECTION_ERROR),
                }
            }
            Err(status) => {
                segments.clear();
                match loaded {
                    Ok(work) => self.partly_keyed(core, work, &mut segments),
                    Err(_) => started.failed = Some(status),
                }
            }
        }
        if started.failed.is_some() {
            // An invalid receive is also posted, with an invalid key. The message that uses the receive then ends in an
            // error.
            segments.push(Segment { addr: 0, length: 1 << 20, lkey: NO_KEY });
        }
        if let Some(link) = &core.link
            && link.pair.post_receive(RECEIVE, &segments).is_err()
        {
            started.failed = Some(Status::TRANSPORT_ERROR);
        }
        started
    }

    /// Adds the segments of a receive that has invalid segments. The invalid ones get [`NO_KEY`], so the device reports
    /// an error only if a message reaches one of them.
    #[cold]
    fn partly_keyed(&self, core: &mut Core, work: &Work, segments: &mut Keyed) {
        let mut access = core.access(&self.card);
        let used = work.data.iter().filter(|segment| segment.length > 0);
        for one in used.take(self.card.config.segments as usize) {
            if access.keyed(core::slice::from_ref(one), segments).is_err() {
                segments.push(Segment { addr: one.address, length: one.length, lkey: NO_KEY });
            }
        }
    }

    /// Allocates registered memory for a descriptor with more segments than the device accepts.
    #[cold]
    pub(super) fn copy_of(&self, core: &Core, work: &Work) -> Option<(Segment, RegisteredMemory)> {
        let memory = Memory::zeroed(work.length() as usize);
        let domain = self.card.regions.domain(core.ptag).ok()?;
        let copy = RegisteredMemory::new(&domain, &memory, Rights::default()).ok()?;
        let segment =
            Segment { addr: memory.address(0), length: work.length(), lkey: copy.local_key() };
        Some((segment, copy))
    }
}
