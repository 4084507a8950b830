//! Describes the provider's capabilities, and compares them with a program's hints.

use crate::object::code;
use crate::types::{DomainAttr, EpAttr, FabricAttr, Info, RxAttr, TxAttr};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;
use sovia_fi::memory::PIECES_MAX;
use sovia_fi::{ADDRESS_LEN, Address, EAGER_MAX, Error, flag};

/// `FI_PROV_SPECIFIC` and a number. The addresses are the bytes of [`Address`].
pub const ADDRESS_FORMAT: u32 = 1 << 31 | 0x5f1;
const PROTOCOL: u32 = 1 << 31 | 0x5f1;

/// Constants of libfabric's enumerations.
#[allow(missing_docs, reason = "libfabric's")]
pub mod value {
    pub const EP_RDM: i32 = 3;
    pub const THREAD_SAFE: i32 = 1;
    pub const THREAD_DOMAIN: i32 = 3;
    pub const PROGRESS_MANUAL: i32 = 2;
    pub const PROGRESS_CONTROL_UNIFIED: i32 = 3;
    pub const RM_ENABLED: i32 = 2;
    pub const AV_TABLE: i32 = 2;
    pub const MR_BASIC: i32 = 1;
    pub const MR_SCALABLE: i32 = 2;
    pub const MR_VIRT_ADDR: i32 = 1 << 4;
    pub const MR_ALLOCATED: i32 = 1 << 5;
    pub const MR_PROV_KEY: i32 = 1 << 6;
}
use value::*;

const PRIMARY: u64 = flag::MSG | flag::TAGGED | flag::RMA | flag::ATOMIC;
const REMOTE: u64 = flag::READ | flag::WRITE | flag::REMOTE_READ | flag::REMOTE_WRITE;
const TX: u64 = PRIMARY | flag::SEND | flag::READ | flag::WRITE;
const RX: u64 = PRIMARY
    | flag::RECV
    | flag::REMOTE_READ
    | flag::REMOTE_WRITE
    | flag::MULTI_RECV
    | flag::DIRECTED_RECV
    | flag::SOURCE
    | flag::RMA_EVENT;
const DOMAIN: u64 = flag::LOCAL_COMM | flag::REMOTE_COMM;
const ALL: u64 = TX | RX | DOMAIN;

/// Flags that can be an endpoint's default flags.
const TX_FLAGS: u64 = flag::COMPLETION
    | flag::INJECT
    | flag::INJECT_COMPLETE
    | flag::TRANSMIT_COMPLETE
    | flag::DELIVERY_COMPLETE
    | flag::MATCH_COMPLETE;
const RX_FLAGS: u64 = flag::COMPLETION | flag::MULTI_RECV;

/// All bits from FI_ORDER_RAR to FI_ORDER_SAS, and the RMA and atomic bits.
const ORDER: u64 = 0x1ff | 0xff << 32;
/// `FI_TAG_GENERIC`: the program may use all bits of a tag.
const TAG_FORMAT: u64 = 0xaaaa_aaaa_aaaa_aaaa;
const QUEUE: usize = 1 << 16;
/// First version in which a program can set each memory registration mode separately.
const SINGLE_MODES: u32 = 1 << 16 | 5;

/// Implements `fi_getinfo` for this provider.
pub unsafe extern "C" fn getinfo(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const Info,
    info: *mut *mut Info,
) -> c_int {
    // SAFETY: C's caller passes null or valid pointers, as libfabric's manual pages require.
    let (node, hints) = unsafe {
        let text = |at: *const c_char| (!at.is_null()).then(|| CStr::from_ptr(at));
        (text(node).or(text(service)), hints.as_ref())
    };
    // SAFETY: the pointers in `hints` are null or valid, as libfabric's manual pages require.
    let offer = match unsafe { offer(version, node, flags, hints) } {
        Ok(offer) => offer,
        Err(error) => return code(Err(error)),
    };
    match offer.into_c() {
        Some(made) => {
            // SAFETY: C's caller passes a writable `info`.
            unsafe { *info = made };
            0
        }
        None => code(Err(Error::NO_MEMORY)),
    }
}

/// The provider's answer to a program.
struct Offer {
    info: Info,
    tx: TxAttr,
    rx: RxAttr,
    ep: EpAttr,
    domain: DomainAttr,
    destination: Option<Address>,
}

/// Fails with [`Error::NO_DATA`] unless `holds`: the provider does not have what the program requests.
fn require(holds: bool) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error::NO_DATA) }
}

fn subset(asked: u64, offered: u64) -> Result<(), Error> {
    require(asked & !offered == 0)
}

fn one_of(asked: i32, offered: &[i32]) -> Result<(), Error> {
    require(asked == 0 || offered.contains(&asked))
}

/// # Safety
/// The pointers in `hints` must be null or valid, as libfabric's manual pages require.
unsafe fn offer(
    version: u32,
    node: Option<&CStr>,
    flags: u64,
    hints: Option<&Info>,
) -> Result<Offer, Error> {
    let mut offer = all();
    // Ignores names of other kinds, such as host names. Programs that use them exchange addresses themselves.
    let named = node.and_then(|node| Address::from_text(node.to_str().ok()?));
    if flags & flag::SOURCE == 0 {
        offer.destination = named;
    } else {
        // An endpoint always gets a new address, so the program cannot choose one.
        require(named.is_none())?;
    }
    let Some(hints) = hints else { return Ok(offer) };
    subset(hints.caps, ALL)?;
    one_of(hints.addr_format as i32, &[ADDRESS_FORMAT as i32])?;
    offer.destination = offer.destination.or_else(|| {
        // SAFETY: `dest_addr` is null or points to `dest_addrlen` bytes, by this function's contract.
        unsafe { address_at(hints.dest_addr, hints.dest_addrlen) }
    });
    if hints.caps != 0 {
        let mut caps = hints.caps | flag::LOCAL_COMM | hints.caps & flag::REMOTE_COMM;
        if caps & (flag::MSG | flag::TAGGED) != 0 && caps & (flag::SEND | flag::RECV) == 0 {
            caps |= flag::SEND | flag::RECV;
        }
        if caps & (flag::RMA | flag::ATOMIC) != 0 && caps & REMOTE == 0 {
            caps |= REMOTE;
        }
        offer.info.caps = caps;
    }
    offer.tx.caps = offer.info.caps & TX;
    offer.rx.caps = offer.info.caps & RX;
    // SAFETY: the pointers in `hints` are null or valid, by this function's contract.
    let parts = unsafe {
        (
            hints.tx_attr.as_ref(),
            hints.rx_attr.as_ref(),
            hints.ep_attr.as_ref(),
            hints.domain_attr.as_ref(),
            hints.fabric_attr.as_ref(),
        )
    };
    let (tx, rx, ep, domain, fabric) = parts;
    tx.map_or(Ok(()), |asked| offer.take_tx(asked))?;
    rx.map_or(Ok(()), |asked| offer.take_rx(asked))?;
    ep.map_or(Ok(()), |asked| offer.take_ep(asked))?;
    if let Some(asked) = domain {
        // SAFETY: the name is null or a C string, by this function's contract.
        unsafe { is_named(asked.name, c"sovia") }?;
        offer.take_domain(asked, version)?;
    }
    if let Some(asked) = fabric {
        // SAFETY: the name is null or a C string, by this function's contract.
        unsafe { is_named(asked.name, c"sovia") }?;
        // SAFETY: the name is null or a C string, by this function's contract.
        unsafe { is_named(asked.prov_name, c"sovia") }?;
    }
    Ok(offer)
}

/// # Safety
/// The pointer must be null or point to a C string.
unsafe fn is_named(asked: *const c_char, name: &CStr) -> Result<(), Error> {
    // SAFETY: the pointer is not null, so this function's contract makes it a C string.
    require(asked.is_null() || unsafe { CStr::from_ptr(asked) } == name)
}

/// # Safety
/// The pointer must be null or point to `len` bytes.
unsafe fn address_at(at: *const c_void, len: usize) -> Option<Address> {
    if at.is_null() {
        return None;
    }
    // SAFETY: the pointer is not null, so this function's contract makes it point to `len` bytes.
    Address::read(unsafe { core::slice::from_raw_parts(at.cast::<u8>(), len) })
}

fn all() -> Offer {
    Offer {
        info: Info {
            next: null_mut(),
            caps: ALL,
            mode: 0,
            addr_format: ADDRESS_FORMAT,
            src_addrlen: 0,
            dest_addrlen: 0,
            src_addr: null_mut(),
            dest_addr: null_mut(),
            handle: null_mut(),
            tx_attr: null_mut(),
            rx_attr: null_mut(),
            ep_attr: null_mut(),
            domain_attr: null_mut(),
            fabric_attr: null_mut(),
            nic: null_mut(),
        },
        tx: TxAttr {
            caps: TX,
            mode: 0,
            op_flags: 0,
            msg_order: ORDER,
            comp_order: 0,
            inject_size: EAGER_MAX,
            size: QUEUE,
            iov_limit: PIECES_MAX,
            rma_iov_limit: 1,
            tclass: 0,
        },
        rx: RxAttr {
            caps: RX,
            mode: 0,
            op_flags: 0,
            msg_order: ORDER,
            comp_order: 0,
            total_buffered_recv: 0,
            size: QUEUE,
            iov_limit: PIECES_MAX,
        },
        ep: EpAttr {
            kind: EP_RDM,
            protocol: PROTOCOL,
            protocol_version: 1,
            max_msg_size: isize::MAX as usize,
            msg_prefix_size: 0,
            max_order_raw_size: EAGER_MAX,
            max_order_war_size: EAGER_MAX,
            max_order_waw_size: EAGER_MAX,
            mem_tag_format: TAG_FORMAT,
            tx_ctx_cnt: 1,
            rx_ctx_cnt: 1,
            auth_key_size: 0,
            auth_key: null_mut(),
        },
        domain: DomainAttr {
            domain: null_mut(),
            name: null_mut(),
            threading: THREAD_SAFE,
            control_progress: PROGRESS_MANUAL,
            data_progress: PROGRESS_MANUAL,
            resource_mgmt: RM_ENABLED,
            av_type: AV_TABLE,
            mr_mode: 0,
            mr_key_size: 8,
            cq_data_size: 8,
            cq_cnt: QUEUE,
            ep_cnt: QUEUE,
            tx_ctx_cnt: QUEUE,
            rx_ctx_cnt: QUEUE,
            max_ep_tx_ctx: 1,
            max_ep_rx_ctx: 1,
            max_ep_stx_ctx: 0,
            max_ep_srx_ctx: 0,
            cntr_cnt: QUEUE,
            mr_iov_limit: PIECES_MAX,
            caps: DOMAIN,
            mode: 0,
            auth_key: null_mut(),
            auth_key_size: 0,
            max_err_data: 0,
            mr_cnt: QUEUE,
            tclass: 0,
        },
        destination: None,
    }
}

impl Offer {
    fn take_tx(&mut self, asked: &TxAttr) -> Result<(), Error> {
        let own = &mut self.tx;
        subset(asked.caps, own.caps)?;
        subset(asked.op_flags, TX_FLAGS)?;
        subset(asked.msg_order, own.msg_order)?;
        require(asked.comp_order == 0 || asked.comp_order & !0xff == 0)?;
        require(asked.inject_size <= own.inject_size && asked.size <= own.size)?;
        require(asked.iov_limit <= own.iov_limit && asked.rma_iov_limit <= own.rma_iov_limit)?;
        own.op_flags = asked.op_flags;
        Ok(())
    }

    fn take_rx(&mut self, asked: &RxAttr) -> Result<(), Error> {
        let own = &mut self.rx;
        subset(asked.caps, own.caps)?;
        subset(asked.op_flags, RX_FLAGS)?;
        subset(asked.msg_order, own.msg_order)?;
        require(asked.comp_order == 0 || asked.comp_order & !0xff == 0)?;
        require(asked.size <= own.size && asked.iov_limit <= own.iov_limit)?;
        own.op_flags = asked.op_flags;
        Ok(())
    }

    fn take_ep(&mut self, asked: &EpAttr) -> Result<(), Error> {
        let own = &self.ep;
        one_of(asked.kind, &[own.kind])?;
        one_of(asked.protocol as i32, &[own.protocol as i32])?;
        require(asked.max_msg_size <= own.max_msg_size)?;
        require(asked.max_order_raw_size <= own.max_order_raw_size)?;
        require(asked.max_order_war_size <= own.max_order_war_size)?;
        require(asked.max_order_waw_size <= own.max_order_waw_size)?;
        require(asked.tx_ctx_cnt <= 1 && asked.rx_ctx_cnt <= 1)?;
        require(asked.auth_key_size == 0)
    }

    fn take_domain(&mut self, asked: &DomainAttr, version: u32) -> Result<(), Error> {
        let own = &mut self.domain;
        require(asked.threading >= 0 && asked.threading <= 5)?;
        if asked.threading != 0 {
            own.threading = asked.threading;
        }
        one_of(asked.control_progress, &[PROGRESS_MANUAL, PROGRESS_CONTROL_UNIFIED])?;
        if asked.control_progress != 0 {
            own.control_progress = asked.control_progress;
        }
        one_of(asked.data_progress, &[PROGRESS_MANUAL])?;
        // Programs that handle full queues themselves also work with a provider that handles them.
        one_of(asked.resource_mgmt, &[1, RM_ENABLED])?;
        one_of(asked.av_type, &[1, AV_TABLE])?;
        if asked.av_type != 0 {
            own.av_type = asked.av_type;
        }
        // Programs written for versions before 1.5 choose between two modes.
        own.mr_mode = match asked.mr_mode {
            MR_BASIC => MR_BASIC,
            0 | MR_SCALABLE if version < SINGLE_MODES => MR_SCALABLE,
            MR_SCALABLE => MR_SCALABLE,
            _ => 0,
        };
        require(asked.mr_key_size <= own.mr_key_size && asked.cq_data_size <= own.cq_data_size)?;
        let counts = [
            (asked.cq_cnt, own.cq_cnt),
            (asked.ep_cnt, own.ep_cnt),
            (asked.max_ep_tx_ctx, own.max_ep_tx_ctx),
            (asked.max_ep_rx_ctx, own.max_ep_rx_ctx),
            (asked.max_ep_stx_ctx, 0),
            (asked.max_ep_srx_ctx, 0),
            (asked.cntr_cnt, own.cntr_cnt),
            (asked.mr_iov_limit, own.mr_iov_limit),
        ];
        require(counts.iter().all(|(asked, own)| asked <= own))?;
        subset(asked.caps, own.caps)?;
        require(asked.auth_key_size == 0)
    }

    /// Copies the offer to memory that libfabric can free: each structure has its own allocation.
    fn into_c(self) -> Option<*mut Info> {
        let Offer { mut info, tx, rx, ep, mut domain, destination } = self;
        let name = || piece(*b"sovia\0");
        domain.name = name()?.cast();
        let fabric = FabricAttr {
            fabric: null_mut(),
            name: name()?.cast(),
            prov_name: null_mut(),
            prov_version: 0,
            api_version: 0,
        };
        if let Some(address) = destination {
            (info.dest_addr, info.dest_addrlen) = (piece(*address.bytes())?.cast(), ADDRESS_LEN);
        }
        info.tx_attr = piece(tx)?;
        info.rx_attr = piece(rx)?;
        info.ep_attr = piece(ep)?;
        info.domain_attr = piece(domain)?;
        info.fabric_attr = piece(fabric)?;
        piece(info)
    }
}

/// Allocates a value with `calloc`. Zeros follow the value, because versions after 1.17 append members to structures.
/// In each of these members, zero means the default.
fn piece<T>(value: T) -> Option<*mut T> {
    const NEWER: usize = 128;
    // SAFETY: the size is not zero. The memory is aligned for any C type.
    let at = unsafe { libc::calloc(1, size_of::<T>() + NEWER) }.cast::<T>();
    if at.is_null() {
        return None;
    }
    // SAFETY: `at` is not null and has room for a `T`.
    unsafe { at.write(value) };
    Some(at)
}
