//! Options, and the information about a stream at level SOL_SOVIA.

use crate::is_preloaded;
use crate::kind::{self, SOCK_VIA};
use core::ffi::{CStr, c_char};
use core::mem::MaybeUninit;
use libc::{c_int, c_void, socklen_t};
use sovia_calls::boundary::{finish, is_bad};
use sovia_calls::sockets as calls;
use sovia_control::Reason;
use sovia_sockets::native::{self, Info};

/// Level of Sovia's own options.
pub const SOL_SOVIA: c_int = 0x53_4f56;
/// `int`, read-only: 1 if the stream has a VI.
pub const SOV_ON_VIA: c_int = 1;
/// `int`, read-only: the reason why the stream stays on TCP for good; 0 if there is none.
pub const SOV_REASON: c_int = 2;
/// `struct sov_info`, read-only.
pub const SOV_INFO: c_int = 3;
/// `int`: 1 makes the socket a SOCK_VIA socket; 0 moves the stream to TCP for good.
pub const SOV_ACCELERATE: c_int = 4;

/// Text, write-only: the stream's configuration of the papers' protocol.
pub const SOV_PROTOCOL: c_int = 5;
/// Longest text that SOV_PROTOCOL accepts, in bytes.
const TEXT_MAX: usize = 1024;

/// Fails with the error of `getsockopt` if `fd` is not a socket.
fn check_socket(fd: c_int) -> Result<(), c_int> {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as socklen_t;
    // SAFETY: both pointers are to live locals of the right size.
    let result = unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_TYPE, (&raw mut value).cast(), &mut len)
    };
    if result == 0 { Ok(()) } else { Err(sovia_calls::errno()) }
}

/// Copies `value` out like `getsockopt`: cut to the length that `*len` gives.
unsafe fn put<T>(value: &T, out: *mut c_void, len: *mut socklen_t) -> Result<usize, c_int> {
    if is_bad(len) || is_bad(out) {
        return Err(libc::EFAULT);
    }
    // SAFETY: the C caller passes a valid `len`, and an `out` with `*len` writable bytes.
    unsafe {
        let room = *len as usize;
        let n = room.min(size_of::<T>());
        core::ptr::copy_nonoverlapping(core::ptr::from_ref(value).cast::<u8>(), out.cast(), n);
        *len = n as socklen_t;
    }
    Ok(0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sov_getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    if level != SOL_SOVIA {
        // SAFETY: the C caller passes pointers that are valid for getsockopt(2).
        let result = unsafe {
            let real = |fd, level, name, value, len| libc::getsockopt(fd, level, name, value, len);
            if is_preloaded() {
                real(fd, level, name, value, len)
            } else {
                calls::getsockopt(real, fd, level, name, value, len)
            }
        };
        if result == 0 && level == libc::SOL_SOCKET && name == libc::SO_TYPE && kind::is_via(fd) {
            // SAFETY: the kernel has just written `*len` bytes to `value`, so both pointers are valid.
            let _ = unsafe { put(&SOCK_VIA, value, len) };
        }
        return result;
    }
    let answer = check_socket(fd).and_then(|()| {
        let info = native::info_here(fd);
        // SAFETY: the C caller passes a valid `len`, and a `value` with `*len` writable bytes.
        unsafe {
            match name {
                SOV_ON_VIA => put(&c_int::from(info.is_accelerated()), value, len),
                SOV_REASON => put(&(info.reason as c_int), value, len),
                SOV_INFO => put::<Info>(&info, value, len),
                SOV_ACCELERATE => put(&c_int::from(is_accelerating(fd, &info)), value, len),
                _ => Err(libc::ENOPROTOOPT),
            }
        }
    });
    finish(answer) as c_int
}

/// Returns true if the stream has a VI or may still get one.
fn is_accelerating(fd: c_int, info: &Info) -> bool {
    kind::is_via(fd) && info.state != native::State::Tcp as u32
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sov_setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    if level == SOL_SOVIA {
        let answer = check_socket(fd).and_then(|()| {
            if name == SOV_PROTOCOL {
                if is_bad(value) {
                    return Err(libc::EFAULT);
                }
                let len = (len as usize).min(TEXT_MAX);
                // SAFETY: the C caller passes a `value` with `len` readable bytes.
                let text = unsafe { core::slice::from_raw_parts(value.cast::<u8>(), len) };
                let end = text.iter().position(|&byte| byte == 0).unwrap_or(len);
                return native::choose_here(fd, &text[..end]).map(|()| 0);
            }
            if (len as usize) < size_of::<c_int>() {
                return Err(libc::EINVAL);
            }
            if is_bad(value) {
                return Err(libc::EFAULT);
            }
            let mut number = MaybeUninit::<c_int>::uninit();
            // SAFETY: the C caller passes a `value` with `len` readable bytes, and `len` is at least the size of an
            // `int`.
            let number = unsafe {
                number.as_mut_ptr().copy_from_nonoverlapping(value.cast(), 1);
                number.assume_init()
            };
            set(fd, name, number)
        });
        return finish(answer) as c_int;
    }
    // SAFETY: the C caller passes a `value` with `len` readable bytes, as setsockopt(2) requires.
    unsafe {
        let real = |fd, level, name, value, len| libc::setsockopt(fd, level, name, value, len);
        if is_preloaded() {
            return real(fd, level, name, value, len);
        }
        calls::setsockopt(real, fd, level, name, value, len)
    }
}

fn set(fd: c_int, name: c_int, number: c_int) -> Result<usize, c_int> {
    match (name, number) {
        (SOV_ACCELERATE, 0) => {
            kind::set(fd, false);
            native::to_tcp_here(fd)?;
        }
        // Only a socket that is not connected can still become a SOCK_VIA socket.
        (SOV_ACCELERATE, _) => {
            if !kind::is_via(fd) {
                if peer_is_known(fd) {
                    return Err(libc::EISCONN);
                }
                kind::set(fd, true);
            }
        }
        (SOV_ON_VIA | SOV_REASON | SOV_INFO, _) => return Err(libc::EINVAL),
        _ => return Err(libc::ENOPROTOOPT),
    }
    Ok(0)
}

fn peer_is_known(fd: c_int) -> bool {
    let mut address = MaybeUninit::<libc::sockaddr_storage>::uninit();
    let mut len = size_of::<libc::sockaddr_storage>() as socklen_t;
    // SAFETY: both pointers are to live locals, and `len` is the size of the address's storage.
    unsafe { libc::getpeername(fd, address.as_mut_ptr().cast(), &mut len) == 0 }
}

/// Sentences for [`SOV_REASON`], by number.
macro_rules! sentences {
    ($($reason:ident)*) => {
        const fn sentence(reason: Reason) -> &'static CStr {
            const fn with_nul(text: &str, room: &mut [u8]) {
                let bytes = text.as_bytes();
                let mut i = 0;
                while i < bytes.len() {
                    room[i] = bytes[i];
                    i += 1;
                }
            }
            match reason {
                $(Reason::$reason => {
                    const LEN: usize = Reason::$reason.describe().len() + 1;
                    const TEXT: [u8; LEN] = {
                        let mut room = [0; LEN];
                        with_nul(Reason::$reason.describe(), &mut room);
                        room
                    };
                    match CStr::from_bytes_with_nul(&TEXT) {
                        Ok(text) => text,
                        Err(_) => c"",
                    }
                })*
            }
        }
    };
}

sentences! {
    PeerNotLocal PeerPlain ShortLived Rule SharedByProcesses FallbackExec FallbackUlp
    FallbackPassed FallbackCall VersionMismatch NoMemory TableFull Corrupt NoDescriptors NotTraceable
    UnknownUser FallbackCredentials Replaced NotConnected Filter OtherUser AddressSpace
    NoThread NeverConnected Relayed FallbackPeer HalfClosed UnknownLibc OwnerUnknown NoAgent PacketFilter NoFilterAgent SwitchedOff NoNic NicGone BrokenOff NotTaken FewMessages NotOffered
}

/// Returns a sentence for a value of SOV_REASON; null for an unknown value.
#[unsafe(no_mangle)]
pub extern "C" fn sov_strreason(reason: c_int) -> *const c_char {
    let number = u32::try_from(reason).ok().and_then(|n| n.checked_sub(1));
    number.and_then(Reason::of).map_or(core::ptr::null(), |reason| sentence(reason).as_ptr())
}
