//! The calls by which completion queues tell events (`tags.rs`).

use crate::boundary::enter;
use crate::cq::CQS;
use crate::handle::Handle;
use crate::pointer::{Opaque, Out};
use crate::tags::Event;
use crate::types::Ulong;
use via::ReturnCode;

/// Has a completion queue tell an event: the one given, or a fresh one where it is null. The
/// priority, which ranks interrupts, has nothing to rank here.
#[unsafe(no_mangle)]
pub extern "C" fn VipAddTagCQ(
    cq: Handle,
    event: Out<Opaque>,
    tag: Ulong,
    _priority: Ulong,
) -> ReturnCode {
    enter(|| {
        let open = CQS.find(cq)?;
        let given = event.get().ok_or(ReturnCode::InvalidParameter)?;
        let own = if given.is_null() { Event::new()? } else { Event::known(given)? };
        let handle = own.handle();
        open.tags.add(&open.cq, own, tag)?;
        event.set(handle);
        Ok(())
    })
}

/// Has a completion queue tell an event no more. With its last tag an event is closed.
#[unsafe(no_mangle)]
pub extern "C" fn VipRemoveTagCQ(cq: Handle, event: Opaque, tag: Ulong) -> ReturnCode {
    enter(|| {
        let open = CQS.find(cq)?;
        let event = Event::known(event)?;
        open.tags.remove(&event, tag)
    })
}
