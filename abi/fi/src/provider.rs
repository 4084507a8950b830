//! The one function that the library exports.

use crate::fabric::fabric;
use crate::info::getinfo;
use crate::types::Provider;

/// Version 0.1 of this provider, as `FI_VERSION` has it.
pub const VERSION: u32 = 1;
/// The newest of the interface's versions whose programs it serves: 2.5. libfabric asks a provider for nothing on behalf of a
/// program of a newer one, and loads one that is newer than itself. Since 1.17, to which [`crate::types`] are written,
/// structures have only become longer: see [`crate::info`] for those that are made here.
pub const FI_VERSION: u32 = 2 << 16 | 5;

unsafe extern "C" fn cleanup() {}

/// What libfabric may change of the provider: its context.
struct Place(core::cell::UnsafeCell<Provider>);

// SAFETY: libfabric alone writes to it, from one thread at a time; this library does not look at it.
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

/// What libfabric calls first.
// SAFETY: no other library exports this name under the name that libfabric loads this one by.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut Provider {
    PROVIDER.0.get()
}
