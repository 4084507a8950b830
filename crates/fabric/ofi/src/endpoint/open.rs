//! Opens an endpoint.

use super::objects::{self, Open};
use super::queue::{WAIT_FD, WAIT_NONE, open_cq};
use super::regions::LOCAL;
use super::{Endpoint, RECV, SEND, failed};
use crate::arena::Arena;
use crate::choice::Choice;
use crate::error::Error;
use crate::leaving::{File, enter};
use crate::library::Library;
use crate::object::Object;
use crate::operation::Operations;
use core::ffi::c_int;
use core::mem::ManuallyDrop;
use core::ptr::{null, null_mut};
use sovia_fi_types::{AvAttr, FidEp};
use std::collections::{BTreeMap, HashMap};
use std::hash::RandomState;
use std::sync::Arc;

/// `FI_ENABLE`.
const ENABLE: c_int = 6;

/// Largest number of posted receives for frames.
const AWAITED: usize = 256;
/// Largest number of frames that the provider has not sent yet. Further frames are refused.
const OUTGOING: usize = 2048;

impl Endpoint {
    /// Opens an endpoint of a provider (`tcp;ofi_rxm`, `shm`). `node` and `service` are an address of this host and a
    /// port or other service. Without them the provider chooses an address. Frames have up to `frame` bytes.
    ///
    /// # Errors
    /// [`Error`].
    pub fn open(
        provider: &str,
        (node, service): (Option<&str>, Option<&str>),
        frame: usize,
    ) -> Result<Endpoint, Error> {
        let library = Library::load()?;
        let _inside = enter().ok_or(Error::Leaving)?;
        let choice = Choice::of(library, provider, (node, service))?;
        let limits = choice.limits();
        let name = choice.name();
        let check = |call, result: c_int| match result {
            0 => Ok(()),
            errno => Err(failed(library, &name, call, errno)),
        };
        let nothing = |call| failed(library, &name, call, libc::ENOMEM);
        // SAFETY: each object is made from the open objects before it, as the manual pages require. All pointers are
        // valid during the calls.
        let (fabric, domain, av, cq, ep, descriptor) = unsafe {
            let info = choice.info;
            let mut fabric = null_mut();
            let attr = (*info).fabric_attr;
            check("fi_fabric", (library.fabric)(attr, &raw mut fabric, null_mut()))?;
            let fabric = Object::new(fabric).ok_or_else(|| nothing("fi_fabric"))?;
            let ops = (*fabric.raw()).ops;
            let mut domain = null_mut();
            let made = ((*ops).domain)(fabric.raw(), info, &raw mut domain, null_mut());
            check("fi_domain", made)?;
            let domain = Object::new(domain).ok_or_else(|| nothing("fi_domain"))?;
            let ops = (*domain.raw()).ops;
            let mut av = null_mut();
            let mut attr = AvAttr {
                kind: 0,
                rx_ctx_bits: 0,
                count: 0,
                ep_per_node: 0,
                name: null(),
                map_addr: null_mut(),
                flags: 0,
            };
            let made = ((*ops).av_open)(domain.raw(), &raw mut attr, &raw mut av, null_mut());
            check("fi_av_open", made)?;
            let av = Object::new(av).ok_or_else(|| nothing("fi_av_open"))?;
            let size = AWAITED + OUTGOING + limits.sends + limits.receives;
            let size = size.min((*(*info).domain_attr).cq_cnt.max(size)).min(1 << 16);
            let (cq, descriptor) = open_cq(&domain, size, WAIT_FD)
                .or_else(|_| open_cq(&domain, size, WAIT_NONE))
                .map_err(|errno| failed(library, &name, "fi_cq_open", errno))?;
            let mut ep = null_mut();
            let made = ((*ops).endpoint)(domain.raw(), info, &raw mut ep, null_mut());
            check("fi_endpoint", made)?;
            let ep = Object::new(ep).ok_or_else(|| nothing("fi_endpoint"))?;
            let ops = (*ep.fid()).ops;
            check("fi_ep_bind", ((*ops).bind)(ep.fid(), av.fid(), 0))?;
            check("fi_ep_bind", ((*ops).bind)(ep.fid(), cq.fid(), SEND | RECV))?;
            check("fi_enable", ((*ops).control)(ep.fid(), ENABLE, null_mut()))?;
            (fabric, domain, av, cq, ep, descriptor)
        };
        let address = address_of(&ep).map_err(|e| failed(library, &name, "fi_getname", e))?;
        let [awaited, outgoing] =
            [AWAITED.min(limits.receives.max(1)), OUTGOING].map(|n| Arc::new(Arena::new(n, frame)));
        let (free, unposted) =
            ((0..outgoing.count()).rev().collect(), (0..awaited.count()).collect());
        let open = Open {
            ep,
            operations: Operations::default(),
            regions: HashMap::new(),
            leases: HashMap::new(),
            _arena_regions: Vec::new(),
            cq,
            av,
            domain,
            fabric,
            choice,
            awaited,
            outgoing,
            _file: File::of(&address),
        };
        objects::opened(&name);
        let mut endpoint = Endpoint {
            open: ManuallyDrop::new(open),
            library,
            limits,
            name,
            address,
            awaited_desc: null_mut(),
            outgoing_desc: null_mut(),
            free,
            unposted,
            waiting: BTreeMap::new(),
            noted: Vec::new(),
            descriptor,
            keys: (RandomState::new(), 0),
        };
        if limits.registers {
            let (start, len) = endpoint.open.awaited.range();
            let (awaited, desc) = endpoint.registered(start, len, LOCAL)?;
            endpoint.awaited_desc = desc;
            let (start, len) = endpoint.open.outgoing.range();
            let (outgoing, desc) = endpoint.registered(start, len, LOCAL)?;
            endpoint.outgoing_desc = desc;
            endpoint.open._arena_regions.extend([awaited, outgoing]);
        }
        endpoint.post_receives();
        Ok(endpoint)
    }
}

/// Returns an endpoint's own address.
fn address_of(ep: &Object<FidEp>) -> Result<Box<[u8]>, c_int> {
    let mut room = [0u8; 256];
    let mut len = room.len();
    // SAFETY: the endpoint is open, and `len` is the size of `room`.
    let result = unsafe {
        let getname = (*(*ep.raw()).cm).getname;
        getname(ep.fid(), room.as_mut_ptr().cast(), &raw mut len)
    };
    if result != 0 {
        return Err(result);
    }
    room.get(..len).map(Box::from).ok_or(libc::ENAMETOOLONG)
}
