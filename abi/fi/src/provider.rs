//! The exported function of the library.

use crate::fabric::fabric;
use crate::info::getinfo;
use crate::types::Provider;

/// Version 0.1 of this provider, encoded like `FI_VERSION`.
pub const VERSION: u32 = 1;
/// The newest interface version that this provider supports, version 2.5.
///
/// If a program was written for a newer version, libfabric does not offer the provider to the program. An older
/// libfabric also loads the provider. [`crate::types`] has the structures of 1.17, and later versions only append
/// members. [`crate::info`] handles the structures that this library allocates.
pub const FI_VERSION: u32 = 2 << 16 | 5;

unsafe extern "C" fn cleanup() {}

/// The provider structure. libfabric may write to its context.
struct Place(core::cell::UnsafeCell<Provider>);

// SAFETY: only libfabric writes to the structure, from one thread at a time. This library never reads it.
unsafe impl Sync for Place {}

static PROVIDER: Place = Place(core::cell::UnsafeCell::new(Provider {
    version: VERSION,
    fi_version: FI_VERSION,
    context: [core::ptr::null_mut(); 4],
    name: c"sovia".as_ptr(),
    getinfo,
    fabric,
    cleanup,
}));

/// Returns the provider structure. libfabric calls this function first.
// SAFETY: libfabric looks this name up in this library only, so no other library's function of the same name conflicts.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut Provider {
    PROVIDER.0.get()
}
