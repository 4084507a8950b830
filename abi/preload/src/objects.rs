//! Which code is this library's, and which libc's; and libc's own `dlsym`.

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

/// The first version of `dlsym`, which every glibc of the processor has.
const VERSION: &CStr = if cfg!(target_arch = "x86_64") { c"GLIBC_2.2.5" } else { c"GLIBC_2.17" };

static DLSYM: AtomicUsize = AtomicUsize::new(0);
/// What this library knows of itself and of libc.
struct Objects {
    own_handle: usize,
    own: Range<usize>,
    libc: Range<usize>,
}

static OBJECTS: OnceLock<Objects> = OnceLock::new();

/// Before the program's own code: until then every look-up gets what libc's `dlsym` finds.
pub(crate) fn start() {
    // SAFETY: the arguments are as the functions ask for; nothing is kept of what `dladdr` has filled in.
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

/// Where the object lies that has something at an address.
fn extent(address: usize) -> Option<Range<usize>> {
    struct Asked {
        address: usize,
        found: Option<Range<usize>>,
    }
    unsafe extern "C" fn look(info: *mut dl_phdr_info, _: size_t, asked: *mut c_void) -> c_int {
        // SAFETY: the linker's description of an object, and what is passed below.
        let (info, asked) = unsafe { (&*info, &mut *asked.cast::<Asked>()) };
        let extent = tables::extent(info);
        if extent.contains(&asked.address) {
            asked.found = Some(extent);
        }
        c_int::from(asked.found.is_some())
    }
    let mut asked = Asked { address, found: None };
    // SAFETY: the function gets the pointer that is passed here.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut asked).cast()) };
    asked.found
}

/// The hook that stands for a function of libc which a look-up by name has found; `None` if there is none, or
/// if another library stands between the hook and libc and may be the one that looks.
///
/// # Safety
/// `name` is a C string.
pub(crate) unsafe fn hook_of(found: usize, name: *const c_char) -> Option<usize> {
    let objects = OBJECTS.get().filter(|objects| objects.libc.contains(&found))?;
    // SAFETY: the next definition after this library's; the call comes from here. Neither look-up fails, and so
    // leaves a word for `dlerror`: both reach libc, which has the name.
    let (next, hook) = unsafe {
        (
            real_dlsym()(libc::RTLD_NEXT, name) as usize,
            real_dlsym()(objects.own_handle as *mut c_void, name) as usize,
        )
    };
    (next == found && objects.own.contains(&hook)).then_some(hook)
}

/// Whether an address is libc's.
pub(crate) fn is_libcs(address: usize) -> bool {
    OBJECTS.get().is_some_and(|objects| objects.libc.contains(&address))
}

/// Whether an address is this library's.
pub(crate) fn is_own(address: usize) -> bool {
    OBJECTS.get().is_some_and(|objects| objects.own.contains(&address))
}

/// libc's `dlsym`. A call of the name would reach the hook.
pub(crate) fn real_dlsym() -> Dlsym {
    // SAFETY: what `dlvsym` has found under that name.
    unsafe { core::mem::transmute::<usize, Dlsym>(real_address()) }
}

pub(crate) extern "C" fn real_address() -> usize {
    let known = DLSYM.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // SAFETY: C strings and a pseudo handle that glibc defines.
    let found = unsafe { dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), VERSION.as_ptr()) } as usize;
    assert!(found != 0, "a libc without dlsym");
    DLSYM.store(found, Ordering::Relaxed);
    found
}
