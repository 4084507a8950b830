//! The NIC type of a program.

use crate::card::{CQ_ENTRIES_MAX, CQ_MAX, Card, DESCRIPTORS_MAX, Description, VI_MAX};
use crate::connection::{Listener, SoftConnection};
use crate::cq::SoftCq;
use crate::driver::Driver;
use crate::ids::{CqId, ViId};
use crate::medium::{Deadline, Medium};
use crate::pins::Pinner;
use crate::recent::Recent;
use crate::vi::SoftVi;
use crate::world::{CqCore, ViCore, Workqueue, World};
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;
use via::cq::Attach;
use via::error::{ConnectError, CqError, CreateViError, MemError, PtagError, RegisterError};
use via::event::ErrorHandler;
use via::{
    AsyncError, MemAttributes, MemHandle, Memory, NetAddress, Nic, NicAttributes, Ptag,
    ViAttributes, ViState,
};

/// An open NIC in software. Its VIs keep the parts of it that they need.
#[derive(Debug)]
pub struct SoftNic<D: Driver> {
    driver: D,
    nic: Arc<Card<Node<D>>>,
}

type Node<D> = <<D as Driver>::Medium as Medium>::Node;

impl<D: Driver> SoftNic<D> {
    /// Opens the NIC at a node of a driver's world. A node may have several NICs at a time. These NICs share the
    /// address, and each has its own memory, tags and VIs.
    pub fn open(driver: D, node: Node<D>, description: &Description<'_>) -> SoftNic<D> {
        let mtu = driver.with(|world| world.config.mtu);
        SoftNic { driver, nic: Arc::new(Card::new(node, description, mtu)) }
    }

    /// Returns the NIC's driver.
    pub fn driver(&self) -> &D {
        &self.driver
    }

    /// Returns the NIC's node in the network.
    pub fn node(&self) -> Node<D> {
        self.nic.node
    }

    /// Returns this NIC's address with a discriminator.
    pub fn address(&self, discriminator: &[u8]) -> NetAddress {
        NetAddress::new(&self.nic.attributes.local_address, discriminator)
    }

    /// Sets a pinner. The pinner locks the pages of memory that is registered from now on, and the NIC sends from the
    /// locked pages.
    pub fn set_pinner(&self, pinner: Arc<dyn Pinner>) {
        self.nic.pins.set(pinner);
    }

    /// Begins to wait for one request without blocking. Corresponds to [`Nic::connect_wait`], for a program that polls.
    ///
    /// # Errors
    /// [`ConnectError::InvalidParameter`] for an address that is too long or belongs to another NIC.
    pub fn listen(&self, local: &NetAddress) -> Result<Listener<D>, ConnectError> {
        self.nic.attributes.own(local)?;
        let (node, local) = (self.nic.node, local.clone());
        let waiter = self.driver.with(|world| world.add_waiter(node, local));
        Ok(Listener::new(self.driver.clone(), waiter))
    }
}

impl<D: Driver> Nic for SoftNic<D> {
    type Vi = SoftVi<D>;
    type Connection = SoftConnection<D>;
    type Cq = SoftCq<D>;

    fn attributes(&self) -> &NicAttributes {
        &self.nic.attributes
    }

    fn create_ptag(&self) -> Result<Ptag, PtagError> {
        self.nic.table.create_ptag()
    }

    fn destroy_ptag(&self, ptag: Ptag) -> Result<(), PtagError> {
        self.nic.table.destroy_ptag(ptag)
    }

    fn register_mem(
        &self,
        memory: &Memory,
        attributes: MemAttributes,
    ) -> Result<MemHandle, RegisterError> {
        let handle = self.nic.table.register(memory, attributes)?;
        match self.driver.with(|world| world.net.register(memory)) {
            Ok(None) => {}
            Ok(Some(key)) => drop(self.nic.keys().insert(handle.raw(), key)),
            Err(error) => {
                let _ = self.nic.table.deregister(handle);
                return Err(error);
            }
        }
        self.nic.pins.registered(handle, memory);
        let beside = self.nic.table.bytes().saturating_sub(memory.len() as u64);
        self.driver.registered(memory, beside);
        Ok(handle)
    }

    fn deregister_mem(&self, handle: MemHandle) -> Result<(), MemError> {
        // All code uses memory only under the world's lock, so no code uses the region here.
        let region = self.driver.with(|world| {
            world.keep_region(&self.nic, handle);
            self.nic.table.deregister(handle)
        })?;
        let moves = |world: &mut World<D::Medium>| world.moves_region(&self.nic, handle);
        if self.driver.with(moves) {
            // The wait ends: the peer's NIC sends, or withdraws the message, or is lost.
            self.driver.wait(Deadline::Never, |world| (!moves(world)).then_some(()));
        }
        let key = self.nic.keys().remove(&handle.raw());
        if let Some(key) = key {
            self.driver.with(|world| world.net.deregister(key));
        }
        self.nic.pins.deregistered(handle);
        self.driver.deregistered(region.memory(), self.nic.table.bytes());
        Ok(())
    }

    fn query_mem(&self, handle: MemHandle) -> Result<(Memory, MemAttributes), MemError> {
        let region = self.nic.table.find(handle.raw()).ok_or(MemError::UnknownHandle)?;
        Ok((region.memory().clone(), region.attributes()))
    }

    fn set_mem_attributes(
        &self,
        handle: MemHandle,
        attributes: MemAttributes,
    ) -> Result<(), MemError> {
        self.driver.with(|world| {
            // Copy unsent bytes first: the VI's right to send them has been checked.
            world.keep_region(&self.nic, handle);
            self.nic.table.set_attributes(handle, attributes).map(drop)
        })
    }

    fn create_cq(&self, entries: u32, context: u64) -> Result<SoftCq<D>, CqError> {
        if !(1..=CQ_ENTRIES_MAX).contains(&entries) {
            return Err(CqError::Entries);
        }
        let more = |count| (count < CQ_MAX).then_some(count + 1);
        self.nic
            .cqs
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .map_err(|_| CqError::TooMany)?;
        let cq = CqCore {
            nic: self.nic.clone(),
            context,
            capacity: entries,
            entries: VecDeque::new(),
            notify: VecDeque::new(),
            signals: Vec::new(),
            attached: 0,
            dropped: false,
        };
        let id = self.driver.with(|world| {
            let id = CqId(world.fresh());
            world.cqs.insert(id, cq);
            id
        });
        Ok(SoftCq::new(self.driver.clone(), id, CQ_ENTRIES_MAX))
    }

    fn create_vi(&self, attributes: ViAttributes) -> Result<SoftVi<D>, CreateViError> {
        self.create_vi_with(attributes, Attach::default())
    }

    fn create_vi_with(
        &self,
        attributes: ViAttributes,
        attach: Attach<'_, SoftCq<D>>,
    ) -> Result<SoftVi<D>, CreateViError> {
        self.nic.attributes.offer(&attributes)?;
        let more = |count| (count < VI_MAX).then_some(count + 1);
        self.nic
            .vis
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .map_err(|_| CreateViError::TooMany)?;
        let Ok(ptag) = self.nic.table.hold_ptag(attributes.ptag) else {
            self.nic.vis.fetch_sub(1, Ordering::Relaxed);
            return Err(CreateViError::UnknownPtag);
        };
        let queue = |cq: Option<&SoftCq<D>>| Workqueue::new(DESCRIPTORS_MAX, cq.map(|cq| cq.id));
        let vi = ViCore {
            nic: self.nic.clone(),
            context: attach.context,
            attributes: ViAttributes { ptag: Some(ptag), ..attributes },
            ptag,
            state: ViState::Idle,
            cause: None,
            conn: None,
            send: queue(attach.send),
            recv: queue(attach.recv),
            waiting: VecDeque::new(),
            started: VecDeque::new(),
            attempt: None,
            outcome: None,
            rung: false,
            overrun: false,
            recent: Recent::default(),
        };
        let id = self.driver.with(|world| {
            let id = ViId(world.fresh());
            for cq in [vi.send.cq, vi.recv.cq].into_iter().flatten() {
                if let Some(cq) = world.cqs.get_mut(&cq) {
                    cq.attached += 1;
                }
            }
            world.vis.insert(id, vi);
            id
        });
        Ok(SoftVi::new(self.driver.clone(), self.nic.clone(), id))
    }

    fn set_error_handler(&self, handler: Option<ErrorHandler>) {
        self.nic.handler.set(handler);
    }

    fn report(&self, error: AsyncError) {
        self.driver.with(|world| world.report(&self.nic, error));
    }

    fn callbacks_wait(&self) -> bool {
        self.nic.dispatcher.waits()
    }

    fn run_callbacks(&self) {
        self.nic.dispatcher.run_waiting();
    }

    fn connect_wait(
        &self,
        local: &NetAddress,
        timeout: Option<Duration>,
    ) -> Result<SoftConnection<D>, ConnectError> {
        let deadline = self.driver.deadline(timeout);
        self.listen(local)?.wait(deadline)
    }
}
