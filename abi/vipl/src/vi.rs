//! VIs: creates, destroys, queries and changes them.

use crate::boundary::enter;
use crate::callback::Callbacks;
use crate::cq::CQS;
use crate::first_tag::Held;
use crate::handle::{Handle, Kind, Table, Using};
use crate::late::{OfNic, let_go};
use crate::nic::{Core, NICS};
use crate::pointer::{In, Opaque, Out};
use crate::provider::AnyVi;
use crate::types::{Boolean, ViAttributesC, state_code};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use via::{Attach, Nic, ReturnCode, Vi, ViAttributes};

/// All VIs.
pub(crate) static VIS: Table<OpenVi> = Table::new(Kind::Vi);

/// A VI.
pub(crate) struct OpenVi {
    pub(crate) vi: AnyVi,
    pub(crate) nic: Arc<Core>,
    /// Data of the program, set by `VipSetUserData`.
    user_data: AtomicUsize,
    pub(crate) callbacks: Arc<Callbacks>,
}

impl OfNic for OpenVi {
    fn nic(&self) -> &Arc<Core> {
        &self.nic
    }
}

/// Creates a VI. Without attributes it has VIA's defaults: reliable delivery of up to 32 KB.
#[unsafe(no_mangle)]
pub extern "C" fn VipCreateVi(
    nic: Handle,
    attributes: In<ViAttributesC>,
    send_cq: Handle,
    recv_cq: Handle,
    vi: Out<Handle>,
) -> ReturnCode {
    enter(|| {
        let nic = NICS.find(nic)?;
        let vi = vi.required()?;
        let (attributes, _first) = wanted(&nic.core, attributes.get())?;
        let own = |cq: Handle| {
            let found = (!cq.is_null()).then(|| CQS.find(cq)).transpose()?;
            match &found {
                Some(cq) if !Arc::ptr_eq(&cq.nic, &nic.core) => Err(ReturnCode::InvalidParameter),
                _ => Ok(found),
            }
        };
        let (send, recv) = (own(send_cq)?, own(recv_cq)?);
        let place = VIS.reserve()?;
        let attach = Attach {
            send: send.as_ref().map(|cq| &cq.cq),
            recv: recv.as_ref().map(|cq| &cq.cq),
            context: place.handle().context(),
        };
        let made = nic.core.nic.create_vi_with(attributes, attach);
        let made = made.map_err(|error| error.code())?;
        let user_data = AtomicUsize::new(0);
        vi.set(place.fill(OpenVi {
            vi: made,
            nic: nic.core.clone(),
            user_data,
            callbacks: Arc::default(),
        }));
        Ok(())
    })
}

/// Returns the requested attributes. Keep the guard until the NIC has them.
fn wanted(
    nic: &Core,
    attributes: Option<ViAttributesC>,
) -> Result<(ViAttributes, Held<'_>), ReturnCode> {
    let (ptag, first) = nic.wanted_ptag(attributes.map_or(Handle::NULL, |some| some.ptag))?;
    let own = attributes.map_or_else(ViAttributes::default, |some| some.to_via());
    Ok((ViAttributes { ptag, ..own }, first))
}

/// Destroys an idle VI. Waits for a callback of the VI in another thread. No callback begins after that.
#[unsafe(no_mangle)]
pub extern "C" fn VipDestroyVi(vi: Handle) -> ReturnCode {
    enter(|| {
        let callbacks = VIS.remove(vi, |open| {
            let OpenVi { vi, nic, user_data, callbacks } = open;
            match vi.destroy() {
                Ok(()) => Ok(callbacks),
                Err((vi, _)) => {
                    Err((OpenVi { vi, nic, user_data, callbacks }, ReturnCode::InvalidState))
                }
            }
        })?;
        callbacks.end();
        Ok(())
    })
}

/// Returns a VI's state and attributes, and whether descriptors are posted to its queues. The program passes null
/// pointers for results that it does not want.
#[unsafe(no_mangle)]
pub extern "C" fn VipQueryVi(
    vi: Handle,
    state: Out<u32>,
    attributes: Out<ViAttributesC>,
    send_empty: Out<Boolean>,
    recv_empty: Out<Boolean>,
) -> ReturnCode {
    enter(|| {
        let open = VIS.find(vi)?;
        state.set(state_code(open.vi.state()));
        let own = open.vi.attributes();
        attributes.set(ViAttributesC::from_via(&own, open.nic.ptag_handle(own.ptag)));
        let (send, recv) = open.vi.queues_empty();
        send_empty.set(send.into());
        recv_empty.set(recv.into());
        let_go(open);
        Ok(())
    })
}

/// Changes the attributes of an idle VI.
#[unsafe(no_mangle)]
pub extern "C" fn VipSetViAttributes(vi: Handle, attributes: In<ViAttributesC>) -> ReturnCode {
    enter(|| {
        let open = VIS.find(vi)?;
        let attributes = attributes.get().ok_or(ReturnCode::InvalidParameter)?;
        let (attributes, _first) = wanted(&open.nic, Some(attributes))?;
        open.vi.set_attributes(attributes).map_err(|error| error.code())
    })
}

/// Returns the program's data of a VI (cLAN); null if there is no such VI.
#[unsafe(no_mangle)]
pub extern "C" fn VipGetUserData(vi: Handle) -> Opaque {
    let data = |open: Using<OpenVi>| open.user_data.load(Ordering::Acquire);
    VIS.find(vi).map_or(Opaque::NULL, |open| Opaque::at(data(open) as u64))
}

/// Sets the program's data of a VI (cLAN).
#[unsafe(no_mangle)]
pub extern "C" fn VipSetUserData(vi: Handle, data: Opaque) {
    if let Ok(open) = VIS.find(vi) {
        open.user_data.store(data.address() as usize, Ordering::Release);
    }
}
