//! The name service: `VipNSInit`, `VipNSShutdown`, `VipNSGetHostByName`, `VipNSGetHostByAddr`.

use crate::boundary::{complain, enter};
use crate::handle::Handle;
use crate::hosts::Hosts;
use crate::nic::{Core, NICS};
use crate::pointer::{AddressPointer, Opaque, Out, Text};
use crate::provider::setting;
use crate::types::Ulong;
use std::sync::{MutexGuard, PoisonError};
use via::{Nic, ReturnCode};

/// The setting that names a file of hosts.
const HOSTS: &str = "SOVIA_VIPL_HOSTS";
/// Bytes of a path.
const PATH_MAX: usize = 4095;
/// Bytes of a host's name.
const NAME_MAX: usize = 255;

fn service(core: &Core) -> MutexGuard<'_, Option<Hosts>> {
    core.hosts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Initializes the name service of a NIC: from the file that is named here, or else by the setting;
/// this host is known without one. Doing it again reads the file again.
#[unsafe(no_mangle)]
pub extern "C" fn VipNSInit(nic: Handle, info: Opaque) -> ReturnCode {
    enter(|| {
        let nic = NICS.find(nic)?;
        let path =
            if info.is_null() { setting(HOSTS) } else { Some(info.as_text().get(PATH_MAX)?) };
        let own = &nic.core.nic.attributes().local_address;
        let hosts = match path {
            None => Hosts::of_this_host(own),
            Some(path) => std::fs::read_to_string(&path)
                .map_err(|error| error.to_string())
                .and_then(|text| Hosts::read(&text, own).map_err(|error| error.to_string()))
                .map_err(|error| {
                    complain(format_args!("{path}: {error}"));
                    ReturnCode::ErrorNameservice
                })?,
        };
        *service(&nic.core) = Some(hosts);
        Ok(())
    })
}

/// Ends the name service of a NIC.
#[unsafe(no_mangle)]
pub extern "C" fn VipNSShutdown(nic: Handle) -> ReturnCode {
    enter(|| {
        let nic = NICS.find(nic)?;
        let ended = service(&nic.core).take();
        ended.map(drop).ok_or(ReturnCode::ErrorNameservice)
    })
}

/// Finds an address of a host: the first for index 0, and so on. Only the address is stored; the
/// discriminator is the program's own.
#[unsafe(no_mangle)]
pub extern "C" fn VipNSGetHostByName(
    nic: Handle,
    name: Text,
    address: AddressPointer,
    index: Ulong,
) -> ReturnCode {
    enter(|| {
        let nic = NICS.find(nic)?;
        if name.is_null() || address.is_null() {
            return Err(ReturnCode::InvalidParameter);
        }
        let name = name.get(NAME_MAX).map_err(|_| ReturnCode::ErrorNameservice)?;
        let service = service(&nic.core);
        let hosts = service.as_ref().ok_or(ReturnCode::ErrorNameservice)?;
        let found = hosts.address(&name, usize::try_from(index).unwrap_or(usize::MAX));
        address.set_host(found.ok_or(ReturnCode::ErrorNameservice)?)
    })
}

/// Finds the name of the host with an address. The length counts the zero at the end; where there
/// is too little room it says how much is needed.
#[unsafe(no_mangle)]
pub extern "C" fn VipNSGetHostByAddr(
    nic: Handle,
    address: AddressPointer,
    name: Out<u8>,
    len: Out<Ulong>,
) -> ReturnCode {
    enter(|| {
        let nic = NICS.find(nic)?;
        let (name, room) = (name.required()?, len.get().ok_or(ReturnCode::InvalidParameter)?);
        let address = address.get_host(nic.core.nic.attributes().local_address.len())?;
        let service = service(&nic.core);
        let hosts = service.as_ref().ok_or(ReturnCode::ErrorNameservice)?;
        let found = hosts.name(&address).ok_or(ReturnCode::ErrorNameservice)?;
        let text = [found.as_bytes(), &[0]].concat();
        len.set(text.len() as Ulong);
        if text.len() as Ulong > room {
            return Err(ReturnCode::ErrorResource);
        }
        name.fill(&text);
        Ok(())
    })
}
