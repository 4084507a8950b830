//! Loads the two libraries.

use crate::sys::*;
use core::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::sync::OnceLock;

/// Error of a call about an RDMA NIC.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A library is missing or too old.
    #[error("{0}; RDMA needs rdma-core (Debian: libibverbs1, librdmacm1, ibverbs-providers)")]
    Library(String),
    /// A call of a library has failed.
    #[error("{call}: {source}{}", hint(.call, .source))]
    Call {
        /// Name of the function.
        call: &'static str,
        /// The operating system's error.
        source: io::Error,
    },
}

/// Returns a hint for the user, if the likely cause of the error is known.
fn hint(call: &str, error: &io::Error) -> &'static str {
    match (call, error.raw_os_error()) {
        ("rdma_create_event_channel", Some(libc::ENOENT | libc::ENODEV)) => {
            " (is there a NIC for RDMA, and is the module rdma_ucm loaded?)"
        }
        ("rdma_create_event_channel", Some(libc::EACCES | libc::EPERM)) => {
            " (this user may not open /dev/infiniband/rdma_cm)"
        }
        ("ibv_reg_mr" | "ibv_create_cq" | "ibv_create_qp", Some(libc::ENOMEM | libc::EAGAIN)) => {
            " (the limit of locked memory may be reached: ulimit -l, LimitMEMLOCK=)"
        }
        ("rdma_bind_addr", Some(libc::ENODEV | libc::EADDRNOTAVAIL)) => {
            " (no NIC for RDMA has that address)"
        }
        _ => "",
    }
}

impl Error {
    /// Makes an error from errno, for the function `call`.
    pub(crate) fn last(call: &'static str) -> Error {
        Error::Call { call, source: io::Error::last_os_error() }
    }

    /// Makes an error from the number that the function `call` has returned.
    pub(crate) fn returned(call: &'static str, errno: c_int) -> Error {
        Error::Call { call, source: io::Error::from_raw_os_error(errno) }
    }

    /// Returns the operating system's error number; `None` if the error has none.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::Library(_) => None,
            Error::Call { source, .. } => source.raw_os_error(),
        }
    }
}

/// Converts the result of a function that returns 0, or -1 with errno set.
pub(crate) fn done(call: &'static str, result: c_int) -> Result<(), Error> {
    if result == 0 { Ok(()) } else { Err(Error::last(call)) }
}

/// Converts the result of a function that returns 0 or an error number.
pub(crate) fn number(call: &'static str, result: c_int) -> Result<(), Error> {
    match result {
        0 => Ok(()),
        -1 => Err(Error::last(call)),
        errno => Err(Error::returned(call, errno)),
    }
}

type In = *mut c_void;

macro_rules! functions {
    ($($library:literal: $(fn $name:ident($($argument:ty),*) $(-> $result:ty)?;)*)*) => {
        /// Functions of the two libraries.
        #[derive(Debug, Clone, Copy)]
        #[expect(missing_docs, reason = "the names are rdma-core's own")]
        pub struct Api { $($(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*)* }

        impl Api {
            fn load() -> Result<Api, String> {
                $(let library = open($library)?;
                $(
                    // SAFETY: rdma-core's headers declare the function of this name with this type. The library is
                    // never closed, so the pointer stays valid.
                    let $name = unsafe {
                        core::mem::transmute::<In, unsafe extern "C" fn($($argument),*) $(-> $result)?>(
                            symbol(library, $library, concat!(stringify!($name), "\0"))?,
                        )
                    };
                )*)*
                Ok(Api { $($($name,)*)* })
            }
        }
    };
}

functions! {
    "libibverbs.so.1":
    fn ibv_fork_init() -> c_int;
    fn ibv_get_device_name(In) -> *const c_char;
    fn ibv_query_device(*mut ibv_context, *mut ibv_device_attr) -> c_int;
    fn ibv_query_port(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int;
    fn ibv_alloc_pd(*mut ibv_context) -> *mut ibv_pd;
    fn ibv_dealloc_pd(*mut ibv_pd) -> c_int;
    fn ibv_reg_mr(*mut ibv_pd, In, usize, c_int) -> *mut ibv_mr;
    fn ibv_dereg_mr(*mut ibv_mr) -> c_int;
    fn ibv_create_comp_channel(*mut ibv_context) -> *mut ibv_comp_channel;
    fn ibv_destroy_comp_channel(*mut ibv_comp_channel) -> c_int;
    fn ibv_create_cq(*mut ibv_context, c_int, In, *mut ibv_comp_channel, c_int) -> *mut ibv_cq;
    fn ibv_destroy_cq(*mut ibv_cq) -> c_int;
    fn ibv_get_cq_event(*mut ibv_comp_channel, *mut *mut ibv_cq, *mut In) -> c_int;
    fn ibv_ack_cq_events(*mut ibv_cq, u32);
    fn ibv_create_qp(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp;
    fn ibv_modify_qp(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
    fn ibv_destroy_qp(*mut ibv_qp) -> c_int;
    "librdmacm.so.1":
    fn rdma_create_event_channel() -> *mut rdma_event_channel;
    fn rdma_destroy_event_channel(*mut rdma_event_channel);
    fn rdma_create_id(*mut rdma_event_channel, *mut *mut rdma_cm_id, In, u32) -> c_int;
    fn rdma_destroy_id(*mut rdma_cm_id) -> c_int;
    fn rdma_bind_addr(*mut rdma_cm_id, *mut libc::sockaddr) -> c_int;
    fn rdma_resolve_addr(*mut rdma_cm_id, *mut libc::sockaddr, *mut libc::sockaddr, c_int) -> c_int;
    fn rdma_resolve_route(*mut rdma_cm_id, c_int) -> c_int;
    fn rdma_listen(*mut rdma_cm_id, c_int) -> c_int;
    fn rdma_connect(*mut rdma_cm_id, *mut rdma_conn_param) -> c_int;
    fn rdma_accept(*mut rdma_cm_id, *mut rdma_conn_param) -> c_int;
    fn rdma_establish(*mut rdma_cm_id) -> c_int;
    fn rdma_reject(*mut rdma_cm_id, *const c_void, u8) -> c_int;
    fn rdma_disconnect(*mut rdma_cm_id) -> c_int;
    fn rdma_get_cm_event(*mut rdma_event_channel, *mut *mut rdma_cm_event) -> c_int;
    fn rdma_ack_cm_event(*mut rdma_cm_event) -> c_int;
    fn rdma_init_qp_attr(*mut rdma_cm_id, *mut ibv_qp_attr, *mut c_int) -> c_int;
    fn rdma_get_src_port(*mut rdma_cm_id) -> u16;
}

impl Api {
    /// Returns the functions of both libraries. The first call loads the libraries and prepares for forks: a child does
    /// not get registered memory that the kernel could not copy for it.
    ///
    /// # Errors
    /// [`Error::Library`].
    pub fn get() -> Result<&'static Api, Error> {
        static LOADED: OnceLock<Result<Api, String>> = OnceLock::new();
        let loaded = LOADED.get_or_init(|| {
            let api = Api::load()?;
            // From now on rdma-core marks registered pages MADV_DONTFORK, unless the kernel copies such pages at a
            // fork. If the call fails, forks work as without the call. SAFETY: no memory has been registered yet, which
            // is the call's only condition.
            let _ = unsafe { (api.ibv_fork_init)() };
            Ok(api)
        });
        loaded.as_ref().map_err(|why| Error::Library(why.clone()))
    }
}

fn open(name: &str) -> Result<In, String> {
    let c_name: Vec<u8> = name.bytes().chain([0]).collect();
    // SAFETY: the name ends with a zero byte. Only rdma-core's own initialization code runs while the library is
    // loaded.
    let library =
        unsafe { libc::dlopen(c_name.as_ptr().cast(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        Err(format!("cannot load {name}: {}", last_error()))
    } else {
        Ok(library)
    }
}

fn symbol(library: In, name: &str, function: &'static str) -> Result<In, String> {
    // SAFETY: the library is open and is never closed, and the name ends with a zero byte.
    let found = unsafe { libc::dlsym(library, function.as_ptr().cast()) };
    if found.is_null() {
        return Err(format!("cannot find {} in {name}", function.trim_end_matches('\0')));
    }
    Ok(found)
}

fn last_error() -> String {
    // SAFETY: dlerror has no preconditions. Its string is valid until this thread's next call of dlerror, and is copied
    // before that.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() { String::new() } else { CStr::from_ptr(text).to_string_lossy().into() }
    }
}
