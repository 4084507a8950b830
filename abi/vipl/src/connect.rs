//! Connections between a client and a server: `VipConnectWait`, `…Accept`, `…Reject`, `…Request`, and `VipDisconnect`.

use crate::boundary::{Outcome, enter, timeout};
use crate::handle::{Handle, Kind, Table};
use crate::late::let_go;
use crate::nic::{Core, NICS};
use crate::pointer::{AddressPointer, Out};
use crate::provider::AnyConnection;
use crate::types::{Ulong, ViAttributesC};
use crate::vi::{OpenVi, VIS};
use std::sync::{Arc, Mutex, PoisonError};
use via::error::ConnectError;
use via::{Connection, NetAddress, Nic, ReturnCode, Vi, ViAttributes};

/// All requests that wait for an answer.
static REQUESTS: Table<Request> = Table::new(Kind::Conn);

/// A request for a connection.
struct Request {
    /// Only one thread at a time uses the request.
    connection: Mutex<AnyConnection>,
    nic: Arc<Core>,
}

/// Waits for a request to connect to an address of this NIC.
#[unsafe(no_mangle)]
pub extern "C" fn VipConnectWait(
    nic: Handle,
    local: AddressPointer,
    wait: Ulong,
    remote: AddressPointer,
    attributes: Out<ViAttributesC>,
    request: Out<Handle>,
) -> ReturnCode {
    enter(|| {
        let nic = NICS.find(nic)?;
        let request = request.required()?;
        let local = local.get_local(nic.core.nic.attributes())?;
        // The wait may take long. Meanwhile closing the NIC fails and does not wait.
        let nic = nic.keep();
        let place = REQUESTS.reserve()?;
        let connection = nic.core.nic.connect_wait(&local, timeout(wait));
        let connection = connection.map_err(|error| error.code())?;
        remote.set(connection.remote_address());
        attributes.set(ViAttributesC::from_via(connection.remote_attributes(), Handle::NULL));
        let connection = Mutex::new(connection);
        request.set(place.fill(Request { connection, nic: nic.core.clone() }));
        Ok(())
    })
}

/// Accepts a request with an idle VI. The request stays for another attempt if the VI is not idle, belongs to another
/// NIC, or has attributes that do not match.
#[unsafe(no_mangle)]
pub extern "C" fn VipConnectAccept(request: Handle, vi: Handle) -> ReturnCode {
    enter(|| {
        let open = VIS.find(vi)?;
        let own = Arc::ptr_eq(&REQUESTS.find(request)?.nic, &open.nic);
        if !own {
            return Err(ReturnCode::InvalidParameter);
        }
        // The requester has to do its part, which may take a while.
        let open = open.keep();
        REQUESTS.remove(request, |taken| {
            let Request { connection, nic } = taken;
            let connection = connection.into_inner().unwrap_or_else(PoisonError::into_inner);
            let Err(not) = connection.accept(&open.vi) else { return Ok(Ok(())) };
            let code = not.error.code();
            match not.request {
                Some(left) => {
                    let connection = Mutex::new(left);
                    Err((Request { connection, nic }, code))
                }
                None => Ok(Err(code)),
            }
        })?
    })
}

/// Rejects a request. If an accept failed because of attributes, the requester is notified of this reason.
#[unsafe(no_mangle)]
pub extern "C" fn VipConnectReject(request: Handle) -> ReturnCode {
    enter(|| {
        REQUESTS.remove(request, |request| {
            request.connection.into_inner().unwrap_or_else(PoisonError::into_inner).reject();
            Ok(())
        })
    })
}

/// Requests a connection, and waits for the answer.
#[unsafe(no_mangle)]
pub extern "C" fn VipConnectRequest(
    vi: Handle,
    local: AddressPointer,
    remote: AddressPointer,
    wait: Ulong,
    attributes: Out<ViAttributesC>,
) -> ReturnCode {
    enter(|| {
        let open = VIS.find(vi)?;
        let (local, remote) = ends(&open, local, remote)?;
        let told = open.keep().vi.connect_request(&local, &remote, timeout(wait));
        tell(told, attributes)
    })
}

/// Returns the local and the remote address of a request.
pub(crate) fn ends(
    open: &OpenVi,
    local: AddressPointer,
    remote: AddressPointer,
) -> Result<(NetAddress, NetAddress), ReturnCode> {
    let own = open.nic.nic.attributes();
    Ok((local.get_local(own)?, remote.get(own)?))
}

/// Stores the attributes of the peer's VI, if there is a connection.
pub(crate) fn tell(
    result: Result<ViAttributes, ConnectError>,
    attributes: Out<ViAttributesC>,
) -> Outcome {
    let told = result.map_err(|error| error.code())?;
    attributes.set(ViAttributesC::from_via(&told, Handle::NULL));
    Ok(())
}

/// Ends a VI's connection, and makes it idle.
#[unsafe(no_mangle)]
pub extern "C" fn VipDisconnect(vi: Handle) -> ReturnCode {
    enter(|| {
        // Used and not kept: a callback for descriptors that this call flushes may destroy the VI. It then waits for
        // the short rest of this call.
        let open = VIS.find(vi)?;
        open.vi.disconnect();
        let_go(open);
        Ok(())
    })
}
