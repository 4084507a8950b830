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

/// Environment variable with the path of the file of hosts.
const HOSTS: &str = "SOVIA_VIPL_HOSTS";
/// Longest path in bytes.
const PATH_MAX: usize = 4095;
/// Longest name of a host in bytes.
const NAME_MAX: usize = 255;

fn service(core: &Core) -> MutexGuard<'_, Option<Hosts>> {
    core.hosts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Initializes a NIC's name service, from the file that `info` or the environment names. Without a file, only this host
/// is known. Another call reads the file again.
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

/// Finds the address number `index` of a host, counted from 0. Stores only the address. The discriminator belongs to
/// the program.
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

/// Finds the name of the host with an address. The length includes the final zero byte. If there is too little room,
/// the length is set to the required one.
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
