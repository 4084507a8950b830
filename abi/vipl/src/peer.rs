//! Connections between two peers. Both send a request, and neither waits for the other: `VipConnectPeer…`.

use crate::boundary::{enter, timeout};
use crate::connect::{ends, tell};
use crate::handle::Handle;
use crate::late::let_go;
use crate::pointer::{AddressPointer, Out};
use crate::types::{Ulong, ViAttributesC};
use crate::vi::VIS;
use via::{ReturnCode, Vi};

/// Begins to connect to a VI whose program also calls this function.
#[unsafe(no_mangle)]
pub extern "C" fn VipConnectPeerRequest(
    vi: Handle,
    local: AddressPointer,
    remote: AddressPointer,
    wait: Ulong,
) -> ReturnCode {
    enter(|| {
        let open = VIS.find(vi)?;
        let (local, remote) = ends(&open, local, remote)?;
        open.vi.connect_peer_request(&local, &remote, timeout(wait)).map_err(|error| error.code())
    })
}

/// Returns the result of the request; `VIP_NOT_DONE` while it is in progress.
#[unsafe(no_mangle)]
pub extern "C" fn VipConnectPeerDone(vi: Handle, attributes: Out<ViAttributesC>) -> ReturnCode {
    enter(|| {
        let open = VIS.find(vi)?;
        let result = open.vi.connect_peer_done();
        let_go(open);
        tell(result.ok_or(ReturnCode::NotDone)?, attributes)
    })
}

/// Waits for the result of the request.
#[unsafe(no_mangle)]
pub extern "C" fn VipConnectPeerWait(vi: Handle, attributes: Out<ViAttributesC>) -> ReturnCode {
    enter(|| tell(VIS.find(vi)?.keep().vi.connect_peer_wait(), attributes))
}
