//! libfabric's exported functions. All other functions are in tables of its objects.

use crate::error::Error;
use core::ffi::{CStr, c_char, c_int, c_void};
use sovia_fi_types::{FabricAttr, FidFabric, Info};
use std::sync::OnceLock;

/// Version of libfabric's interface that this crate uses.
pub(crate) const VERSION: u32 = 1 << 16 | 9;
const NAME: &CStr = c"libfabric.so.1";

type Getinfo = unsafe extern "C" fn(
    u32,
    *const c_char,
    *const c_char,
    u64,
    *const Info,
    *mut *mut Info,
) -> c_int;
type Fabric = unsafe extern "C" fn(*mut FabricAttr, *mut *mut FidFabric, *mut c_void) -> c_int;

/// The loaded libfabric. It is never unloaded.
#[derive(Debug)]
pub struct Library {
    pub(crate) getinfo: Getinfo,
    pub(crate) freeinfo: unsafe extern "C" fn(*mut Info),
    pub(crate) dupinfo: unsafe extern "C" fn(*const Info) -> *mut Info,
    pub(crate) fabric: Fabric,
    strerror: unsafe extern "C" fn(c_int) -> *const c_char,
    version: unsafe extern "C" fn() -> u32,
}

/// Returns the text of `dlerror`.
fn complaint() -> String {
    // SAFETY: dlerror has no preconditions. Its text is valid until this thread's next call.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "no reason given".into();
    }
    // SAFETY: the text is a C string, and is valid until this thread's next call of dlerror.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

impl Library {
    /// Returns the library. The first call loads it.
    ///
    /// # Errors
    /// [`Error::Library`].
    pub fn load() -> Result<&'static Library, Error> {
        static LIBRARY: OnceLock<Result<Library, Error>> = OnceLock::new();
        LIBRARY.get_or_init(Library::open).as_ref().map_err(Clone::clone)
    }

    fn open() -> Result<Library, Error> {
        // SAFETY: the name is a C string. Only libfabric's own constructors run during the call.
        let handle = unsafe { libc::dlopen(NAME.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(Error::Library(complaint()));
        }
        let find = |name: &CStr| {
            // SAFETY: the library is loaded and never unloaded, and the name is a C string.
            let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
            if symbol.is_null() { Err(Error::Library(complaint())) } else { Ok(symbol) }
        };
        let library = [c"fi_getinfo", c"fi_freeinfo", c"fi_dupinfo", c"fi_fabric", c"fi_strerror"];
        let [getinfo, freeinfo, dupinfo, fabric, strerror] = library.map(find);
        let version = find(c"fi_version")?;
        // SAFETY: libfabric's headers declare each of these functions with this type.
        let library = unsafe {
            Library {
                getinfo: core::mem::transmute::<*mut c_void, Getinfo>(getinfo?),
                freeinfo: core::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut Info)>(
                    freeinfo?,
                ),
                dupinfo: core::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*const Info) -> *mut Info,
                >(dupinfo?),
                fabric: core::mem::transmute::<*mut c_void, Fabric>(fabric?),
                strerror: core::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(c_int) -> *const c_char,
                >(strerror?),
                version: core::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> u32>(
                    version,
                ),
            }
        };
        let (major, minor) = library.version();
        crate::leaving::watch();
        if (major << 16 | minor) < VERSION {
            return Err(Error::Library(format!("version {major}.{minor} is older than 1.9")));
        }
        Ok(library)
    }

    /// Returns libfabric's version: major and minor.
    pub fn version(&self) -> (u32, u32) {
        // SAFETY: fi_version has no preconditions.
        let version = unsafe { (self.version)() };
        (version >> 16, version & 0xffff)
    }

    /// Returns libfabric's text for an error number.
    pub(crate) fn explain(&self, errno: c_int) -> String {
        // SAFETY: fi_strerror accepts any number and returns null or a static string.
        let text = unsafe { (self.strerror)(errno.abs()) };
        if text.is_null() {
            return format!("error {errno}");
        }
        // SAFETY: the text is a static C string.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}
