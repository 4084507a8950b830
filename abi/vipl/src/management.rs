//! Errors that belong to no call, and what is asked of the system.

use crate::boundary::{complain, enter};
use crate::callback::{ErrorFunction, for_errors};
use crate::handle::Handle;
use crate::nic::{Core, NICS};
use crate::pointer::{Opaque, Out};
use crate::types::{AutodiscoveryList, NetAddressHeader, Ulong};
use std::sync::Arc;
use via::error::ErrorCode;
use via::event::ErrorHandler;
use via::{AsyncError, Nic, ReturnCode};

/// `VIP_SMI_AUTODISCOVERY`.
const AUTODISCOVERY: Ulong = 1;

/// What a NIC does with errors until the program says otherwise: a line on standard error.
pub(crate) fn default_error_handler(device: String) -> ErrorHandler {
    Arc::new(move |error: &AsyncError| {
        let mut of = String::new();
        for (what, which) in [("VI", error.vi), ("CQ", error.cq), ("descriptor", error.descriptor)]
        {
            if let Some(which) = which {
                of += &format!(" {what} {which:#x}");
            }
        }
        complain(format_args!("{device}: {}{of}", name(error.code)));
    })
}

/// An error's name, as the header has it.
fn name(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::PostDesc => "VIP_ERROR_POST_DESC",
        ErrorCode::ConnLost => "VIP_ERROR_CONN_LOST",
        ErrorCode::RecvqEmpty => "VIP_ERROR_RECVQ_EMPTY",
        ErrorCode::ViOverrun => "VIP_ERROR_VI_OVERRUN",
        ErrorCode::RdmawProt => "VIP_ERROR_RDMAW_PROT",
        ErrorCode::RdmawData => "VIP_ERROR_RDMAW_DATA",
        ErrorCode::RdmawAbort => "VIP_ERROR_RDMAW_ABORT",
        ErrorCode::RdmarProt => "VIP_ERROR_RDMAR_PROT",
        ErrorCode::CompProt => "VIP_ERROR_COMP_PROT",
        ErrorCode::RdmaTransport => "VIP_ERROR_RDMA_TRANSPORT",
        ErrorCode::Catastrophic => "VIP_ERROR_CATASTROPHIC",
    }
}

/// Has errors told to the program's function; to standard error again for a null pointer.
#[unsafe(no_mangle)]
pub extern "C" fn VipErrorCallback(
    nic: Handle,
    context: Opaque,
    function: Option<ErrorFunction>,
) -> ReturnCode {
    enter(|| {
        let open = NICS.find(nic)?;
        let handler = match function {
            Some(function) => for_errors(function, context, nic),
            None => default_error_handler(open.core.name.clone()),
        };
        open.core.nic.set_error_handler(Some(handler));
        Ok(())
    })
}

/// Bytes of a `VIP_NET_ADDRESS`: a program may copy one by assignment.
const ADDRESS: usize = size_of::<NetAddressHeader>() + 22;

/// A NIC's address as a `VIP_NET_ADDRESS` without a discriminator. Of 16-bit words, to be aligned
/// like one.
pub(crate) struct Discovery(Box<[u16]>);

impl Discovery {
    fn new(core: &Core) -> Discovery {
        let host = &core.nic.attributes().local_address;
        let words = host
            .chunks(2)
            .map(|pair| u16::from_ne_bytes([pair[0], pair.get(1).copied().unwrap_or_default()]));
        let mut address: Vec<u16> = [host.len() as u16, 0].into_iter().chain(words).collect();
        address.resize(address.len().max(ADDRESS / 2), 0);
        Discovery(address.into())
    }
}

/// Tells which NICs can be reached: this one.
#[unsafe(no_mangle)]
pub extern "C" fn VipQuerySystemManagementInfo(
    nic: Handle,
    kind: Ulong,
    info: Opaque,
) -> ReturnCode {
    enter(|| {
        let open = NICS.find(nic)?;
        if kind != AUTODISCOVERY {
            return Err(ReturnCode::ErrorNotSupported);
        }
        let list: Out<AutodiscoveryList> = info.as_out();
        let list = list.required()?;
        let own = open.core.discovery.get_or_init(|| Discovery::new(&open.core));
        let addresses = Opaque(own.0.as_ptr().cast_mut().cast());
        list.set(AutodiscoveryList { number_of_hops: 0, addresses, count: 1 });
        Ok(())
    })
}
