//! Asynchronous errors, and queries about the system.

use crate::boundary::enter;
use crate::callback::{ErrorFunction, default_error_handler, for_errors};
use crate::discovery::Discovery;
use crate::handle::Handle;
use crate::nic::NICS;
use crate::pointer::{Opaque, Out};
use crate::types::{AutodiscoveryList, Ulong};
use via::{Nic, ReturnCode};

/// `VIP_SMI_AUTODISCOVERY`.
const AUTODISCOVERY: Ulong = 1;

/// Sets the program's function for errors. A null pointer restores the output on standard error.
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

/// Returns the reachable NICs: only this one.
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
        let own = open
            .core
            .discovery
            .get_or_init(|| Discovery::new(&open.core.nic.attributes().local_address));
        let addresses = own.address();
        list.set(AutodiscoveryList { number_of_hops: 0, addresses, count: 1 });
        Ok(())
    })
}
