//! Whether a program uses streams for wide characters.

use crate::tables::Table;
use core::ffi::CStr;
use core::sync::atomic::{AtomicU8, Ordering};
use libc::{c_int, c_void, dl_phdr_info, size_t};
use sovia_calls::boundary::{errno, set_errno};

/// Functions by which a program turns a stream to wide characters. glibc has several names for most: `__NAME_chk`,
/// `NAME_unlocked`, `__isoc99_NAME`.
const WIDE: [&[u8]; 13] = [
    b"fwide",
    b"fgetwc",
    b"getwc",
    b"fputwc",
    b"putwc",
    b"fgetws",
    b"fputws",
    b"fwprintf",
    b"vfwprintf",
    b"fwscanf",
    b"vfwscanf",
    b"ungetwc",
    b"fgetwln",
];

/// A part of the names of libstdc++'s streams of wide characters over one of libc's.
const WIDE_CXX: &[u8] = b"stdio_sync_filebufIw";

/// Libraries that call them for the standard streams, or for a caller that has one of the names above.
const NOT_BY_THEMSELVES: [&[u8]; 2] = [b"/libstdc++.so", b"/libbsd.so"];

fn has(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|here| here == part)
}

fn is_wide(name: &[u8]) -> bool {
    let bare = name.strip_prefix(b"__").unwrap_or(name);
    let bare = match bare.strip_prefix(b"isoc") {
        Some(rest) => rest.splitn(2, |&letter| letter == b'_').nth(1).unwrap_or(bare),
        None => bare,
    };
    let bare = bare.strip_suffix(b"_chk").unwrap_or(bare);
    let bare = bare.strip_suffix(b"_unlocked").unwrap_or(bare);
    WIDE.contains(&bare) || has(name, WIDE_CXX)
}

/// Whether the program or a library of it has one of them in its table. Those that are opened later are not seen.
pub(crate) fn may_be_used() -> bool {
    const UNKNOWN: u8 = 0;
    const NO: u8 = 1;
    const YES: u8 = 2;
    static KNOWN: AtomicU8 = AtomicU8::new(UNKNOWN);

    unsafe extern "C" fn look(info: *mut dl_phdr_info, _: size_t, _: *mut c_void) -> c_int {
        // SAFETY: the linker's description of an object, which stays while this runs.
        unsafe {
            let info = &*info;
            let object = match info.dlpi_name {
                name if name.is_null() => c"",
                name => CStr::from_ptr(name),
            };
            let mut wants = false;
            if !NOT_BY_THEMSELVES.iter().any(|part| has(object.to_bytes(), part))
                && let Some(table) = Table::of(info)
            {
                table.each_name(|name| wants |= is_wide(CStr::from_ptr(name).to_bytes()));
            }
            c_int::from(wants)
        }
    }
    if KNOWN.load(Ordering::Relaxed) == UNKNOWN {
        let before = errno();
        // SAFETY: the function takes nothing.
        let wants = unsafe { libc::dl_iterate_phdr(Some(look), core::ptr::null_mut()) };
        KNOWN.store(if wants == 0 { NO } else { YES }, Ordering::Relaxed);
        set_errno(before);
    }
    KNOWN.load(Ordering::Relaxed) == YES
}
