//! The parts of libtirpc that the measurement calls. They are loaded at run time, because the rest of Sovia does not
//! need libtirpc.
//!
//! Names and layouts are from libtirpc's headers (`rpc/clnt.h`, `rpc/svc.h`, `rpc/xdr.h`). They are fixed by the
//! library's version number (3).

use core::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::ffi::CString;
use std::net::{SocketAddrV4, TcpListener};
use std::os::fd::IntoRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use anyhow::{Context, bail, ensure};

/// Largest argument in bytes.
pub(super) const MOST: usize = 65536;

const PROGRAM: c_ulong = 0x2000_0f02;
const VERSION: c_ulong = 1;
/// Number of the procedure, which takes an array of bytes and returns an integer.
const COUNTED: c_uint = 1;

/// `xdrproc_t`.
type Xdr = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;

/// First fields of `CLIENT`.
#[repr(C)]
struct ClientHandle {
    auth: *mut c_void,
    ops: *const ClientOps,
}

/// First field of `struct clnt_ops`.
#[repr(C)]
struct ClientOps {
    call: unsafe extern "C" fn(
        *mut ClientHandle,
        c_uint,
        Xdr,
        *mut c_void,
        Xdr,
        *mut c_void,
        libc::timeval,
    ) -> c_int,
}

/// First fields of `struct svc_req`.
#[repr(C)]
struct Request {
    program: c_uint,
    version: c_uint,
    procedure: c_uint,
}

/// First fields of `SVCXPRT`.
#[repr(C)]
struct Transport {
    fd: c_int,
    port: u16,
    ops: *const TransportOps,
}

/// First fields of `struct xp_ops`.
#[repr(C)]
struct TransportOps {
    receive: *const c_void,
    state: *const c_void,
    arguments: unsafe extern "C" fn(*mut Transport, Xdr, *mut c_void) -> c_int,
}

/// `struct netbuf`.
#[repr(C)]
struct NetworkAddress {
    room: c_uint,
    len: c_uint,
    at: *mut c_void,
}

type Dispatch = unsafe extern "C" fn(*mut Request, *mut Transport);

/// Functions that are called.
#[derive(Clone, Copy)]
pub(super) struct Library {
    xdr_int: Xdr,
    xdr_bytes: unsafe extern "C" fn(*mut c_void, *mut *mut c_char, *mut c_uint, c_uint) -> c_int,
    create_client: unsafe extern "C" fn(
        *mut libc::sockaddr_in,
        c_ulong,
        c_ulong,
        *mut c_int,
        c_uint,
        c_uint,
    ) -> *mut ClientHandle,
    create_transport: unsafe extern "C" fn(c_int, c_uint, c_uint) -> *mut Transport,
    register: unsafe extern "C" fn(*mut Transport, c_ulong, c_ulong, Dispatch, c_int) -> c_int,
    reply: unsafe extern "C" fn(*mut Transport, Xdr, *mut c_void) -> c_int,
    run: unsafe extern "C" fn(),
    via: Option<Via>,
}

/// Functions of libsovia-rpc.
#[derive(Clone, Copy)]
struct Via {
    create_client: unsafe extern "C" fn(
        c_int,
        *const NetworkAddress,
        u32,
        u32,
        c_uint,
        c_uint,
    ) -> *mut ClientHandle,
    create_transport: unsafe extern "C" fn(c_int, c_uint, c_uint) -> *mut Transport,
    run: unsafe extern "C" fn(),
}

/// `RPC_ANYFD`: makes the callee create a socket.
const ANY: c_int = -1;

/// The loaded library, for callbacks of libtirpc, which get no argument from this program.
static LIBRARY: OnceLock<Library> = OnceLock::new();

/// An argument, in the form that `xdr_bytes` takes.
#[repr(C)]
struct Bytes {
    at: *mut c_char,
    len: c_uint,
}

/// A library that is never closed.
struct Handle(*mut c_void);

impl Handle {
    fn open(name: &CStr) -> anyhow::Result<Self> {
        // SAFETY: the name is a C string. Only the library's own constructors run during the call.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        if handle.is_null() {
            // SAFETY: after a failed call, dlerror returns null or a C string.
            let why = unsafe { libc::dlerror().as_ref().map(|text| CStr::from_ptr(text)) };
            let why = why.map_or_else(String::new, |why| why.to_string_lossy().into_owned());
            bail!("cannot open {}: {why}", name.to_string_lossy());
        }
        Ok(Self(handle))
    }

    fn find(&self, name: &CStr) -> anyhow::Result<*mut c_void> {
        // SAFETY: the library is never closed, and the name is a C string.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        ensure!(!found.is_null(), "cannot find {} in the library", name.to_string_lossy());
        Ok(found)
    }
}

impl Via {
    #[expect(clippy::missing_transmute_annotations, reason = "the fields say the types")]
    fn open(path: &Path) -> anyhow::Result<Self> {
        let name = CString::new(path.as_os_str().as_bytes()).context("the path has a NUL byte")?;
        let library = Handle::open(&name)?;
        // SAFETY: sovia_rpc.h and svc.h declare these functions with these types.
        unsafe {
            Ok(Self {
                create_client: core::mem::transmute(library.find(c"clnt_via_create")?),
                create_transport: core::mem::transmute(library.find(c"svc_via_create")?),
                run: core::mem::transmute(library.find(c"svc_run")?),
            })
        }
    }
}

impl Library {
    /// Loads libtirpc. With the path of libsovia-rpc, also loads that library, for transport and clients.
    #[expect(clippy::missing_transmute_annotations, reason = "the fields say the types")]
    pub(super) fn open(via: Option<&Path>) -> anyhow::Result<Self> {
        if let Some(library) = LIBRARY.get() {
            return Ok(*library);
        }
        let tirpc = Handle::open(c"libtirpc.so.3")
            .context("bench rpc needs libtirpc (Debian: libtirpc3)")?;
        let via = via.map(Via::open).transpose()?;
        // SAFETY: the headers of version 3 declare these functions with these types.
        let library = unsafe {
            Self {
                xdr_int: core::mem::transmute::<*mut c_void, Xdr>(tirpc.find(c"xdr_int")?),
                xdr_bytes: core::mem::transmute(tirpc.find(c"xdr_bytes")?),
                create_client: core::mem::transmute(tirpc.find(c"clnttcp_create")?),
                create_transport: core::mem::transmute(tirpc.find(c"svc_vc_create")?),
                register: core::mem::transmute(tirpc.find(c"svc_register")?),
                reply: core::mem::transmute(tirpc.find(c"svc_sendreply")?),
                run: core::mem::transmute(tirpc.find(c"svc_run")?),
                via,
            }
        };
        Ok(*LIBRARY.get_or_init(|| library))
    }

    /// Serves by libsovia-rpc, and passes its port to `say`. Returns only if serving fails.
    pub(super) fn serve_via(
        &self,
        say: impl FnOnce(u16) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let via = self.via.context("libsovia-rpc is not open")?;
        // SAFETY: libsovia-rpc has made the transport, which lives until the process ends.
        unsafe {
            let transport = (via.create_transport)(ANY, 0, 0);
            ensure!(!transport.is_null(), "libsovia-rpc cannot make a transport");
            let registered = (self.register)(transport, PROGRAM, VERSION, answer, 0);
            ensure!(registered != 0, "libtirpc cannot register the service");
            say((*transport).port)?;
            (via.run)();
        }
        Ok(())
    }

    /// Serves on a listener. Returns only if serving fails.
    pub(super) fn serve(&self, listener: TcpListener) -> anyhow::Result<()> {
        // SAFETY: the transport takes ownership of the descriptor, and lives until the process ends.
        unsafe {
            let transport = (self.create_transport)(listener.into_raw_fd(), 0, 0);
            ensure!(!transport.is_null(), "libtirpc cannot make a transport for the listener");
            let registered = (self.register)(transport, PROGRAM, VERSION, answer, 0);
            ensure!(registered != 0, "libtirpc cannot register the service");
            (self.run)();
        }
        Ok(())
    }

    /// Makes a client of the server at this address.
    pub(super) fn client(&self, server: SocketAddrV4) -> anyhow::Result<Client> {
        let mut fd: c_int = ANY;
        // SAFETY: all zeroes are a valid sockaddr_in. All pointers are to locals that outlive the calls.
        let handle = unsafe {
            let mut address: libc::sockaddr_in = core::mem::zeroed();
            address.sin_family = libc::AF_INET as libc::sa_family_t;
            address.sin_addr.s_addr = u32::from(*server.ip()).to_be();
            address.sin_port = server.port().to_be();
            let at = &raw mut address;
            let len = size_of::<libc::sockaddr_in>() as c_uint;
            let place = NetworkAddress { room: len, len, at: at.cast() };
            match self.via {
                Some(via) => {
                    let (program, version) = (PROGRAM as u32, VERSION as u32);
                    (via.create_client)(fd, &raw const place, program, version, 0, 0)
                }
                None => (self.create_client)(at, PROGRAM, VERSION, &raw mut fd, 0, 0),
            }
        };
        ensure!(!handle.is_null(), "libtirpc cannot connect to {server}");
        Ok(Client { library: *self, handle, bytes: vec![7; MOST] })
    }
}

/// A connection for calls, which exists until the process ends.
pub(super) struct Client {
    library: Library,
    handle: *mut ClientHandle,
    bytes: Vec<c_char>,
}

impl Client {
    /// Makes a call with an argument of `size_bytes`, at most [`MOST`], and waits for the answer.
    pub(super) fn call(&mut self, size_bytes: usize) -> anyhow::Result<()> {
        let bytes = self.bytes.get_mut(..size_bytes).context("the argument is too large")?;
        let mut argument = Bytes { at: bytes.as_mut_ptr(), len: size_bytes as c_uint };
        let mut counted: c_int = -1;
        let patience = libc::timeval { tv_sec: 60, tv_usec: 0 };
        // SAFETY: the handle is a valid client. Argument and answer outlive the call, and have the types that the two
        // functions take.
        let status = unsafe {
            ((*(*self.handle).ops).call)(
                self.handle,
                COUNTED,
                xdr_argument,
                (&raw mut argument).cast(),
                self.library.xdr_int,
                (&raw mut counted).cast(),
                patience,
            )
        };
        ensure!(status == 0, "a call of {size_bytes} bytes failed: clnt_stat {status}");
        ensure!(
            counted == size_bytes as c_int,
            "the server received {counted} of {size_bytes} bytes"
        );
        Ok(())
    }
}

/// # Safety
/// Only libtirpc may call this function, with a valid stream and a [`Bytes`].
unsafe extern "C" fn xdr_argument(stream: *mut c_void, argument: *mut c_void) -> c_int {
    let Some(library) = LIBRARY.get() else { return 0 };
    let argument = argument.cast::<Bytes>();
    // SAFETY: the caller passes a valid stream and a [`Bytes`].
    unsafe {
        (library.xdr_bytes)(
            stream,
            &raw mut (*argument).at,
            &raw mut (*argument).len,
            MOST as c_uint,
        )
    }
}

/// # Safety
/// Only libtirpc may call this function, with a request for this program and its transport.
unsafe extern "C" fn answer(request: *mut Request, transport: *mut Transport) {
    let Some(library) = LIBRARY.get() else { return };
    let mut place = [0 as c_char; MOST];
    let mut argument = Bytes { at: place.as_mut_ptr(), len: 0 };
    // SAFETY: the caller passes a valid request and transport. The argument has room for the largest number of bytes.
    unsafe {
        if (*request).procedure == COUNTED
            && ((*(*transport).ops).arguments)(transport, xdr_argument, (&raw mut argument).cast())
                == 0
        {
            return;
        }
        let mut counted = argument.len as c_int;
        (library.reply)(transport, library.xdr_int, (&raw mut counted).cast());
    }
}
