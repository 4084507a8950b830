//! Completion queues: `VipCreateCQ`, `VipCQDone` and others. cLAN's additions are in [`crate::tagging`].

use crate::boundary::{Outcome, enter, timeout};
use crate::callback::{self, Callbacks, CqFunction};
use crate::handle::{Handle, Kind, Table};
use crate::late::{OfNic, let_go, patiently};
use crate::nic::{Core, NICS};
use crate::pointer::{Opaque, Out};
use crate::provider::AnyCq;
use crate::tags::Tags;
use crate::types::{Boolean, Ulong};
use std::sync::Arc;
use via::cq::CqEntry;
use via::{CompletionQueue, Nic, ReturnCode};

/// All completion queues.
pub(crate) static CQS: Table<OpenCq> = Table::new(Kind::Cq);

/// A completion queue.
pub(crate) struct OpenCq {
    pub(crate) cq: AnyCq,
    pub(crate) nic: Arc<Core>,
    pub(crate) tags: Tags,
    callbacks: Arc<Callbacks>,
}

impl OfNic for OpenCq {
    fn nic(&self) -> &Arc<Core> {
        &self.nic
    }
}

fn entries(count: Ulong) -> Result<u32, ReturnCode> {
    u32::try_from(count).map_err(|_| ReturnCode::InvalidParameter)
}

/// Creates a completion queue.
#[unsafe(no_mangle)]
pub extern "C" fn VipCreateCQ(nic: Handle, count: Ulong, cq: Out<Handle>) -> ReturnCode {
    enter(|| {
        let nic = NICS.find(nic)?;
        let (cq, count) = (cq.required()?, entries(count)?);
        let place = CQS.reserve()?;
        let made = nic.core.nic.create_cq(count, place.handle().context());
        let made = made.map_err(|error| error.code())?;
        cq.set(place.fill(OpenCq {
            cq: made,
            nic: nic.core.clone(),
            tags: Tags::default(),
            callbacks: Arc::default(),
        }));
        Ok(())
    })
}

/// Destroys a completion queue that no VI is attached to.
#[unsafe(no_mangle)]
pub extern "C" fn VipDestroyCQ(cq: Handle) -> ReturnCode {
    enter(|| {
        let callbacks =
            CQS.remove(cq, |OpenCq { cq, nic, tags, callbacks }| match cq.destroy() {
                Ok(()) => {
                    tags.clear();
                    Ok(callbacks)
                }
                Err(cq) => Err((OpenCq { cq, nic, tags, callbacks }, ReturnCode::ErrorResource)),
            })?;
        callbacks.end();
        Ok(())
    })
}

/// Changes the capacity of a completion queue. Its entries stay.
#[unsafe(no_mangle)]
pub extern "C" fn VipResizeCQ(cq: Handle, count: Ulong) -> ReturnCode {
    enter(|| CQS.find(cq)?.cq.resize(entries(count)?).map_err(|error| error.code()))
}

/// Takes the oldest entry.
#[unsafe(no_mangle)]
pub extern "C" fn VipCQDone(cq: Handle, vi: Out<Handle>, recv: Out<Boolean>) -> ReturnCode {
    enter(|| {
        let open = CQS.find(cq)?;
        let vi = vi.required()?;
        let Some(entry) = look(&open) else {
            let_go(open);
            return Err(ReturnCode::NotDone);
        };
        tell(entry, vi, recv)
    })
}

/// Waits for an entry and takes it.
#[unsafe(no_mangle)]
pub extern "C" fn VipCQWait(
    cq: Handle,
    wait: Ulong,
    vi: Out<Handle>,
    recv: Out<Boolean>,
) -> ReturnCode {
    enter(|| {
        let open = CQS.find(cq)?;
        let vi = vi.required()?;
        if let Some(entry) = look(&open) {
            return tell(entry, vi, recv);
        }
        // Kept and not used: destroying the queue fails meanwhile and does not wait.
        let open = open.keep();
        let entry = patiently(&open.nic, timeout(wait), |slice| open.cq.wait(slice));
        tell(entry.map_err(|error| error.code())?, vi, recv)
    })
}

#[inline]
fn look(open: &OpenCq) -> Option<CqEntry> {
    let entry = open.cq.done();
    if entry.is_none() {
        open.tags.found_empty(&open.cq);
    }
    entry
}

#[inline]
fn tell(entry: CqEntry, vi: Out<Handle>, recv: Out<Boolean>) -> Outcome {
    vi.set(Handle::from_context(entry.context));
    recv.set(callback::is_recv(&entry));
    Ok(())
}

/// Registers a callback for the next entry. It runs once, and the entry is taken.
#[unsafe(no_mangle)]
pub extern "C" fn VipCQNotify(
    cq: Handle,
    context: Opaque,
    function: Option<CqFunction>,
) -> ReturnCode {
    enter(|| {
        let open = CQS.find(cq)?;
        let function = function.ok_or(ReturnCode::InvalidParameter)?;
        open.cq.notify(callback::for_cq(
            function,
            context,
            open.nic.handle,
            open.callbacks.clone(),
        ));
        Ok(())
    })
}
