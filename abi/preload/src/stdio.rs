//! stdio over a connection. libc's own streams call the kernel past every hook, so a connection gets a stream
//! whose reads and writes are functions of the program's (`fopencookie`), and these are the hooks.
//!
//! Such a stream differs from libc's in one thing: it cannot be used for wide characters. So a program that has
//! functions for these in its table gets libc's stream, and its connection goes back to TCP.

use crate::wide;
use core::ffi::CStr;
use core::sync::atomic::{AtomicUsize, Ordering};
use libc::{EOF, ESPIPE, FILE, c_char, c_int, c_void, off64_t, size_t};
use sovia_calls::boundary::set_errno;
use sovia_calls::descriptors::{libcs_stream, no_libcs_stream};
use sovia_sockets::ops;
use sovia_sockets::process::is_borrowed;
use sovia_sockets::retreat::{self, Cause};
use sovia_sockets::table::{self, Entry};

/// A stream: what programs can look at (glibc's bits/types/struct_FILE.h), and the table of functions behind it.
#[repr(C)]
struct Stream {
    flags: c_int,
    buffers: [*mut c_char; 11],
    markers: *mut c_void,
    chain: *mut FILE,
    fileno: c_int,
    between: [u8; 44],
    wide: *mut c_void,
    rest: [u8; 48],
    functions: usize,
}

const _: () = assert!(core::mem::offset_of!(Stream, fileno) == 112);
const _: () = assert!(core::mem::offset_of!(Stream, wide) == 160);
const _: () = assert!(core::mem::offset_of!(Stream, functions) == 216);
/// What a stream has for wide characters takes 232 bytes today (bytes).
const WIDE_ROOM: usize = 1024;

/// The table of streams that read and write by functions of the program's, as soon as there is one from here.
static BY_FUNCTIONS: AtomicUsize = AtomicUsize::new(0);

/// The descriptor of a stream that was made here.
///
/// # Safety
/// The stream is open.
unsafe fn own_descriptor(file: *mut FILE) -> Option<c_int> {
    let stream = file.cast::<Stream>();
    // SAFETY: the caller's word.
    let (functions, fileno) = unsafe { ((*stream).functions, (*stream).fileno) };
    // libc gives those of other makers a negative number.
    (functions == BY_FUNCTIONS.load(Ordering::Relaxed) && fileno >= 0).then_some(fileno)
}

/// A stream is about to be closed, which libc does past every hook unless it was made here.
///
/// # Safety
/// The stream is open, or null.
pub(crate) unsafe fn closing(file: *mut FILE) {
    // SAFETY: the caller's word.
    if !file.is_null() && unsafe { own_descriptor(file) }.is_none() {
        // SAFETY: likewise.
        unsafe { gives_up(file) };
    }
}

/// A stream is about to give up its descriptor, which libc closes or uses for something else.
unsafe fn gives_up(file: *mut FILE) {
    // SAFETY: the caller's stream, which is open.
    unsafe {
        let fd = libc::fileno(file);
        no_libcs_stream(fd);
        if !matches!(table::get(fd), Entry::Foreign | Entry::Private) && !is_borrowed() {
            libc::fflush(file);
            ops::close(fd);
        }
    }
}

/// The same for `freopen`, which takes the descriptor of any stream for itself.
///
/// # Safety
/// The stream is open, or null.
pub(crate) unsafe fn reopening(file: *mut FILE) {
    if file.is_null() {
        return;
    }
    // SAFETY: the caller's word.
    unsafe {
        gives_up(file);
        if own_descriptor(file).is_some() {
            // libc makes one of its own streams of it, for wide characters too, and has made no room for them.
            // It keeps the stream for ever, and so it does this.
            let room = libc::calloc(1, WIDE_ROOM);
            if !room.is_null() {
                (*file.cast::<Stream>()).wide = room;
            }
        }
    }
}

hooks! {
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
        let conn = table::conn(fd);
        // One that has no connection yet may get one.
        if (conn.is_some() || table::is_noted_tcp(fd))
            && let Some(mode) = Mode::read(mode)
            && !is_borrowed()
            && !wide::may_be_used()
        {
            return open(fd, &mode);
        }
        if let Some(at) = conn {
            retreat::now(fd, at, Cause::Stream);
        }
        let file = real!()(fd, mode);
        if !file.is_null() {
            libcs_stream(fd);
        }
        file
    }

    fn fclose(file: *mut FILE) -> c_int {
        closing(file);
        real!()(file)
    }

    fn pclose(file: *mut FILE) -> c_int {
        closing(file);
        real!()(file)
    }
}

/// What `fdopen` takes from its mode.
struct Mode {
    name: &'static CStr,
    appends: bool,
}

impl Mode {
    /// `None` for one that `fdopen` refuses.
    ///
    /// # Safety
    /// A string.
    unsafe fn read(mode: *const c_char) -> Option<Mode> {
        // SAFETY: the caller's word.
        let mode = unsafe { CStr::from_ptr(mode) }.to_bytes();
        let (&first, rest) = mode.split_first()?;
        // As far as glibc looks.
        let both = rest.iter().take(4).any(|&letter| letter == b'+');
        let name = match (first, both) {
            (b'r', false) => c"r",
            (b'w', false) => c"w",
            (b'a', false) => c"a",
            (b'r', true) => c"r+",
            (b'w', true) => c"w+",
            (b'a', true) => c"a+",
            _ => return None,
        };
        Some(Mode { name, appends: first == b'a' })
    }
}

/// A stream for a connection.
unsafe fn open(fd: c_int, mode: &Mode) -> *mut FILE {
    let functions = libc_cookie::Functions {
        read: Some(read),
        write: Some(write),
        seek: Some(seek),
        close: Some(close),
    };
    // SAFETY: the functions take a descriptor for their cookie, and what C's `read` and `write` take.
    unsafe {
        if mode.appends {
            let flags = libc::fcntl(fd, libc::F_GETFL);
            if flags & libc::O_APPEND == 0
                && libc::fcntl(fd, libc::F_SETFL, flags | libc::O_APPEND) != 0
            {
                return core::ptr::null_mut();
            }
        }
        let cookie = core::ptr::without_provenance_mut(fd as usize);
        let file = libc_cookie::fopencookie(cookie, mode.name.as_ptr(), functions);
        if !file.is_null() {
            let stream = file.cast::<Stream>();
            (*stream).fileno = fd;
            BY_FUNCTIONS.store((*stream).functions, Ordering::Relaxed);
        }
        file
    }
}

/// Of stdio.h.
mod libc_cookie {
    use libc::{FILE, c_char, c_int, c_void, off64_t, size_t};

    #[repr(C)]
    pub(super) struct Functions {
        pub(super) read: Option<unsafe extern "C" fn(*mut c_void, *mut c_char, size_t) -> isize>,
        pub(super) write: Option<unsafe extern "C" fn(*mut c_void, *const c_char, size_t) -> isize>,
        pub(super) seek: Option<unsafe extern "C" fn(*mut c_void, *mut off64_t, c_int) -> c_int>,
        pub(super) close: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    }

    unsafe extern "C" {
        pub(super) fn fopencookie(
            cookie: *mut c_void,
            mode: *const c_char,
            functions: Functions,
        ) -> *mut FILE;
    }
}

unsafe extern "C" fn read(cookie: *mut c_void, buf: *mut c_char, len: size_t) -> isize {
    // SAFETY: libc's buffer.
    unsafe { crate::receive::read(cookie.addr() as c_int, buf.cast(), len) }
}

/// Writes all, unless there is an error: what is left of a short write would count as one.
unsafe extern "C" fn write(cookie: *mut c_void, buf: *const c_char, len: size_t) -> isize {
    let mut done = 0;
    while done < len {
        // SAFETY: libc's buffer, behind what has been written.
        let n =
            unsafe { crate::send::write(cookie.addr() as c_int, buf.add(done).cast(), len - done) };
        if n < 0 {
            break;
        }
        done += n as usize;
    }
    done as isize
}

unsafe extern "C" fn seek(_: *mut c_void, _: *mut off64_t, _: c_int) -> c_int {
    set_errno(ESPIPE);
    EOF
}

unsafe extern "C" fn close(cookie: *mut c_void) -> c_int {
    // SAFETY: takes a number.
    unsafe { crate::descriptors::close(cookie.addr() as c_int) }
}
