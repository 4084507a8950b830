//! Address ranges of this library and of libc, and libc's own `dlsym`.

use crate::tables;
use core::ffi::CStr;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};
use libc::{c_char, c_int, c_void, dl_phdr_info, size_t};
use std::sync::OnceLock;

unsafe extern "C" {
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// Oldest version of the symbol `dlsym`. Every glibc for this processor has this version.
const VERSION: &CStr = if cfg!(target_arch = "x86_64") { c"GLIBC_2.2.5" } else { c"GLIBC_2.17" };

static DLSYM: AtomicUsize = AtomicUsize::new(0);
/// Handle and address range of this library, and address range of libc.
struct Objects {
    own_handle: usize,
    own: Range<usize>,
    libc: Range<usize>,
}

static OBJECTS: OnceLock<Objects> = OnceLock::new();

/// Finds the address ranges of this library and of libc. The library's constructor calls this function, before the
/// program's own code runs. Until then [`hook_of`] returns no hooks.
pub(crate) fn start() {
    // SAFETY: all pointers are C strings, or variables of this function. No pointer from `about` outlives the
    // block.
    unsafe {
        let mut about: libc::Dl_info = core::mem::zeroed();
        let here = start as *const () as usize;
        if libc::dladdr(here as *const c_void, &raw mut about) == 0 {
            return;
        }
        let own_handle = libc::dlopen(about.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        let version = libc::dlsym(libc::RTLD_NEXT, c"gnu_get_libc_version".as_ptr()) as usize;
        if let (false, Some(own), Some(libc)) =
            (own_handle.is_null(), extent(here), extent(version))
        {
            let _ = OBJECTS.set(Objects { own_handle: own_handle as usize, own, libc });
        }
    }
}

/// Returns the address range of the object that contains an address.
fn extent(address: usize) -> Option<Range<usize>> {
    struct Asked {
        address: usize,
        found: Option<Range<usize>>,
    }
    unsafe extern "C" fn look(info: *mut dl_phdr_info, _: size_t, asked: *mut c_void) -> c_int {
        // SAFETY: `info` is the linker's description of an object, and `asked` is the variable below.
        let (info, asked) = unsafe { (&*info, &mut *asked.cast::<Asked>()) };
        if tables::contains(info, asked.address) {
            asked.found = Some(tables::extent(info));
        }
        c_int::from(asked.found.is_some())
    }
    let mut asked = Asked { address, found: None };
    // SAFETY: `look` gets the address of `asked`, which lives during the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut asked).cast()) };
    asked.found
}

/// Returns the hook for the function `name`, which a look-up has found at the address `found`. Returns `None` if
/// `found` is not in libc or has no hook. Also returns `None` if a library between this library and libc defines
/// `name`, because that library may have made the look-up.
///
/// # Safety
/// `name` must be a C string.
pub(crate) unsafe fn hook_of(found: usize, name: *const c_char) -> Option<usize> {
    let objects = OBJECTS.get().filter(|objects| objects.libc.contains(&found))?;
    // SAFETY: the caller guarantees that `name` is a C string, and both handles are valid. RTLD_NEXT refers to this
    // library, which makes the call. Both look-ups reach libc, which has the name, so neither sets `dlerror`.
    let (next, hook) = unsafe {
        (
            real_dlsym()(libc::RTLD_NEXT, name) as usize,
            real_dlsym()(objects.own_handle as *mut c_void, name) as usize,
        )
    };
    (next == found && objects.own.contains(&hook)).then_some(hook)
}

/// Returns true if an address lies in libc.
pub(crate) fn is_libcs(address: usize) -> bool {
    OBJECTS.get().is_some_and(|objects| objects.libc.contains(&address))
}

/// Returns true if an address lies in this library.
pub(crate) fn is_own(address: usize) -> bool {
    OBJECTS.get().is_some_and(|objects| objects.own.contains(&address))
}

/// Returns libc's own `dlsym`. A call of `dlsym` by name would reach the hook.
pub(crate) fn real_dlsym() -> Dlsym {
    // SAFETY: `dlvsym` has found the address under the name `dlsym`, which has this type.
    unsafe { core::mem::transmute::<usize, Dlsym>(real_address()) }
}

pub(crate) extern "C" fn real_address() -> usize {
    let known = DLSYM.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // SAFETY: both names are C strings, and glibc defines the pseudo handle.
    let found = unsafe { dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), VERSION.as_ptr()) } as usize;
    assert!(found != 0, "a libc without dlsym");
    DLSYM.store(found, Ordering::Relaxed);
    found
}
