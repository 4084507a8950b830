//! Exchanges between two processes. One process is killed. Both processes run the same exchange until it fails.

use super::ledger::Counted;
use std::sync::mpsc;
use via::{CompletionQueue, Control, DescriptorAddress, Status, Vi};
use via_conformance::{SOON, Target};
use via_shm::ShmCq;

/// Number of receives posted at the beginning, and number of data bytes for each.
pub(crate) const RECEIVES: usize = 16;
pub(crate) const ROOM: usize = 256 << 10;
/// Offset in data memory, behind the receives' bytes, from which sends come and to which RDMAs go.
pub(crate) const OWN: usize = RECEIVES * ROOM;
pub(crate) const LEN: usize = 1 << 20;

/// Arguments of an exchange.
pub(crate) struct Scene<'a, 'n> {
    pub(crate) here: &'a Counted<'n>,
    pub(crate) there: Target,
    pub(crate) cq: Option<&'a ShmCq>,
}

/// An exchange. Continues until the connection breaks, and returns the status.
pub(crate) type Deed = fn(&Scene<'_, '_>) -> Status;

const BY_CQ: &str = "waits on a completion queue";

/// Returns true if receives must make entries in a completion queue. The other exchanges take no entries, so the queue
/// would overrun.
pub(crate) fn needs_cq(deed: &str) -> bool {
    deed == BY_CQ
}

pub(crate) const ALL: [(&str, Deed); 9] = [
    ("messages", |scene| both_ways(scene, 3000)),
    ("messages of several entries", |scene| both_ways(scene, ROOM)),
    ("short RDMA writes", |scene| rdma(scene, Control::OP_RDMAWRITE, 2000)),
    ("long RDMA writes", |scene| rdma(scene, Control::OP_RDMAWRITE, LEN)),
    ("short RDMA reads", |scene| rdma(scene, Control::OP_RDMAREAD, 2000)),
    ("long RDMA reads", |scene| rdma(scene, Control::OP_RDMAREAD, LEN)),
    (BY_CQ, by_completion_queue),
    ("callbacks", by_callbacks),
    ("sends that wait for room", ahead),
];

impl Scene<'_, '_> {
    fn send(&self, i: usize, len: usize) {
        let end = &self.here.end;
        self.here.post_send(end.descriptor(100 + i % 64, &[end.data(OWN, len)], None));
    }

    fn sent(&self) -> Result<u32, Status> {
        self.here.sends.taken(&self.here.end.vi.send_wait(SOON).unwrap())
    }

    fn received(&self) -> Result<DescriptorAddress, Status> {
        let done = self.here.end.vi.recv_wait(SOON).unwrap();
        self.here.receives.taken(&done).map(|_| done.descriptor)
    }
}

fn until_it_breaks(mut each: impl FnMut(usize) -> Result<(), Status>) -> Status {
    (0..).find_map(|i| each(i).err()).unwrap_or(Status::empty())
}

fn both_ways(scene: &Scene<'_, '_>, len: usize) -> Status {
    until_it_breaks(|i| {
        scene.send(i, len - i % 100);
        scene.sent()?;
        scene.here.post_recv(scene.received()?);
        Ok(())
    })
}

fn rdma(scene: &Scene<'_, '_>, operation: Control, len: usize) -> Status {
    let end = &scene.here.end;
    until_it_breaks(|i| {
        for k in 0..3 {
            let data = [end.data(OWN + k * 64, len - k * 64)];
            let to = scene.there.at(OWN + k);
            let place = 100 + (3 * i + k) % 64;
            scene.here.post_send(end.rdma(place, operation, to, &data, None));
        }
        (0..3).try_for_each(|_| scene.sent().map(drop))
    })
}

fn by_completion_queue(scene: &Scene<'_, '_>) -> Status {
    until_it_breaks(|i| {
        scene.send(i, 500);
        scene.sent()?;
        // Flushed receives also make entries.
        scene.cq.unwrap().wait(SOON).unwrap();
        scene.here.post_recv(scene.received()?);
        Ok(())
    })
}

fn by_callbacks(scene: &Scene<'_, '_>) -> Status {
    let (sender, receiver) = mpsc::channel();
    until_it_breaks(|i| {
        let sender = sender.clone();
        scene.here.end.vi.recv_notify(Box::new(move |done| sender.send(done).unwrap()));
        scene.send(i, 700);
        let done = receiver.recv_timeout(SOON.unwrap()).expect("no callback");
        scene.here.receives.taken(&done)?;
        scene.sent()?;
        scene.here.post_recv(done.descriptor);
        Ok(())
    })
}

/// Sends more than fits. When one process dies, the other one's sends are waiting for room.
fn ahead(scene: &Scene<'_, '_>) -> Status {
    // One process may be two batches ahead of the other. The receives for these are posted.
    const BATCH: usize = RECEIVES / 2 - 1;
    until_it_breaks(|i| {
        for k in 0..BATCH {
            scene.send(BATCH * i + k, ROOM);
        }
        for _ in 0..BATCH {
            scene.here.post_recv(scene.received()?);
        }
        (0..BATCH).try_for_each(|_| scene.sent().map(drop))
    })
}
