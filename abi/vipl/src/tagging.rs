//! Calls by which completion queues signal events (`tags.rs`).

use crate::boundary::enter;
use crate::cq::CQS;
use crate::handle::Handle;
use crate::pointer::{Opaque, Out};
use crate::tags::Event;
use crate::types::Ulong;
use via::ReturnCode;

/// Makes a completion queue signal an event: the given one, or a new one if `event` points to null. The priority has no
/// effect: it ranks interrupts, which do not exist here.
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

/// Ends the signalling of an event by a completion queue. An event is closed with its last tag.
#[unsafe(no_mangle)]
pub extern "C" fn VipRemoveTagCQ(cq: Handle, event: Opaque, tag: Ulong) -> ReturnCode {
    enter(|| {
        let open = CQS.find(cq)?;
        let event = Event::known(event)?;
        open.tags.remove(&event, tag)
    })
}
