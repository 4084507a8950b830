//! Sockets of libsovia, by the calls that a C program makes. The library is loaded at the first use.

use std::ffi::{CStr, CString, c_int, c_void};
use std::io;
use std::mem::{size_of_val, transmute_copy};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};

use super::Link;

/// Socket type from sovia.h.
const SOCK_VIA: c_int = 12;

/// The used functions, as sovia.h declares them.
pub(in crate::measure::bench) struct Library {
    socket: unsafe extern "C" fn(c_int, c_int, c_int) -> c_int,
    bind: unsafe extern "C" fn(c_int, *const libc::sockaddr, libc::socklen_t) -> c_int,
    listen: unsafe extern "C" fn(c_int, c_int) -> c_int,
    accept: unsafe extern "C" fn(c_int, *mut libc::sockaddr, *mut libc::socklen_t) -> c_int,
    connect: unsafe extern "C" fn(c_int, *const libc::sockaddr, libc::socklen_t) -> c_int,
    getsockname: unsafe extern "C" fn(c_int, *mut libc::sockaddr, *mut libc::socklen_t) -> c_int,
    setsockopt: unsafe extern "C" fn(c_int, c_int, c_int, *const c_void, libc::socklen_t) -> c_int,
    read: unsafe extern "C" fn(c_int, *mut c_void, usize) -> isize,
    write: unsafe extern "C" fn(c_int, *const c_void, usize) -> isize,
    close: unsafe extern "C" fn(c_int) -> c_int,
}

impl Library {
    /// Loads libsovia.
    pub(in crate::measure::bench) fn open(path: &Path) -> anyhow::Result<Arc<Self>> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: the name is a C string. The library is never closed, and its constructors have no preconditions.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        ensure!(!handle.is_null(), "cannot load {}", path.display());
        // SAFETY: each function has the type that sovia.h declares for its name.
        unsafe {
            Ok(Arc::new(Self {
                socket: symbol(handle, c"sov_socket")?,
                bind: symbol(handle, c"sov_bind")?,
                listen: symbol(handle, c"sov_listen")?,
                accept: symbol(handle, c"sov_accept")?,
                connect: symbol(handle, c"sov_connect")?,
                getsockname: symbol(handle, c"sov_getsockname")?,
                setsockopt: symbol(handle, c"sov_setsockopt")?,
                read: symbol(handle, c"sov_read")?,
                write: symbol(handle, c"sov_write")?,
                close: symbol(handle, c"sov_close")?,
            }))
        }
    }

    fn socket(self: &Arc<Self>) -> anyhow::Result<Native> {
        // SAFETY: takes numbers only.
        let fd = unsafe { (self.socket)(libc::AF_INET, SOCK_VIA, 0) };
        Ok(Native { fd: checked(fd)?, library: self.clone() })
    }
}

/// Returns a function of a loaded library.
///
/// # Safety
/// `F` must be the type of a pointer to this function.
unsafe fn symbol<F: Copy>(library: *mut c_void, name: &CStr) -> anyhow::Result<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the library is loaded, and the name is a C string.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    ensure!(!found.is_null(), "cannot find {} in libsovia", name.to_string_lossy());
    // SAFETY: the caller promises that `F` is the function's pointer type, and both types have the same size.
    Ok(unsafe { transmute_copy(&found) })
}

/// A connection or a listener.
pub(in crate::measure::bench) struct Native {
    fd: c_int,
    library: Arc<Library>,
}

/// Listens at 127.0.0.1, on a port that the kernel chooses.
pub(in crate::measure::bench) fn listen(library: &Arc<Library>) -> anyhow::Result<(Native, u16)> {
    let socket = library.socket()?;
    let mut at = loopback(0);
    let mut length = size_of_val(&at) as libc::socklen_t;
    let address = (&raw mut at).cast::<libc::sockaddr>();
    // SAFETY: `at` is a live address of `length` bytes.
    unsafe {
        checked((library.bind)(socket.fd, address, length)).context("bind")?;
        checked((library.listen)(socket.fd, 1)).context("listen")?;
        checked((library.getsockname)(socket.fd, address, &raw mut length))?;
    }
    Ok((socket, u16::from_be(at.sin_port)))
}

/// Connects to a port at 127.0.0.1.
pub(in crate::measure::bench) fn connect(
    library: &Arc<Library>,
    port: u16,
) -> anyhow::Result<Native> {
    let socket = library.socket()?;
    let at = loopback(port);
    let length = size_of_val(&at) as libc::socklen_t;
    // SAFETY: `at` is a live address of `length` bytes.
    checked(unsafe { (library.connect)(socket.fd, (&raw const at).cast(), length) })?;
    Ok(socket)
}

impl Native {
    /// Accepts the one connection.
    pub(in crate::measure::bench) fn accept(self) -> anyhow::Result<Self> {
        let none = std::ptr::null_mut();
        // SAFETY: null pointers mean that no address is requested.
        let fd = unsafe { (self.library.accept)(self.fd, none, std::ptr::null_mut()) };
        Ok(Self { fd: checked(fd)?, library: self.library.clone() })
    }

    /// Sets TCP_NODELAY.
    pub(in crate::measure::bench) fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        let value = c_int::from(nodelay);
        let (level, name) = (libc::IPPROTO_TCP, libc::TCP_NODELAY);
        let length = size_of_val(&value) as libc::socklen_t;
        // SAFETY: `value` is a live local of `length` bytes.
        let done = unsafe {
            (self.library.setsockopt)(self.fd, level, name, (&raw const value).cast(), length)
        };
        checked(done).map(drop)
    }
}

impl Link for Native {
    fn send(&mut self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            // SAFETY: `data` has `data.len()` readable bytes.
            let len = unsafe { (self.library.write)(self.fd, data.as_ptr().cast(), data.len()) };
            data = &data[usize::try_from(len).map_err(|_| io::Error::last_os_error())?..];
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.set_nodelay(true)?;
        self.set_nodelay(false)
    }

    fn receive(&mut self, data: &mut [u8]) -> io::Result<usize> {
        // SAFETY: `data` has room for `data.len()` bytes.
        let len = unsafe { (self.library.read)(self.fd, data.as_mut_ptr().cast(), data.len()) };
        match usize::try_from(len) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => Ok(len),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        // SAFETY: this value owns the descriptor, and no code uses it afterwards.
        unsafe { (self.library.close)(self.fd) };
    }
}

fn loopback(port: u16) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) },
        sin_zero: [0; 8],
    }
}

fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
