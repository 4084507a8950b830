//! Which NIC a device's name stands for.

use crate::boundary::complain;
use sovia_nic::OpenError;
pub(crate) use sovia_nic::{AnyConnection, AnyCq, AnyNic, AnyVi};
use via::ReturnCode;

/// The setting that names the provider.
const PROVIDER: &str = "SOVIA_VIPL_PROVIDER";
/// The provider where the setting says nothing.
const DEFAULT_PROVIDER: &str = "shm";
/// The setting that names the NIC which every device's name stands for.
const NIC: &str = "SOVIA_VIPL_NIC";
/// The NIC where the setting says nothing.
const DEFAULT_NIC: &str = "vipl";
/// In place of a NIC's name: each device's name is a NIC of its own.
const EACH: &str = "*";

/// A value of a setting; `None` where it is not set, or empty.
pub(crate) fn setting(name: &str) -> Option<String> {
    std::env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(|value| value.to_string_lossy().into_owned())
}

/// Opens the NIC that a device's name stands for.
///
/// # Errors
/// `VIP_ERROR` for a setting that makes no sense, `VIP_ERROR_RESOURCE` where the system has
/// too little of something; each with a line on standard error.
pub(crate) fn open(device: &str) -> Result<AnyNic, ReturnCode> {
    let named = setting(NIC);
    let name = match named.as_deref() {
        None => DEFAULT_NIC,
        Some(EACH) => device,
        Some(name) => name,
    };
    let provider = setting(PROVIDER);
    AnyNic::open(provider.as_deref().unwrap_or(DEFAULT_PROVIDER), name).map_err(|error| {
        match &error {
            OpenError::Provider(_) => complain(format_args!("{PROVIDER}={error}")),
            _ => complain(format_args!("cannot open {device} as {name}: {error}")),
        }
        match error {
            OpenError::Provider(_) | OpenError::Name(_) => ReturnCode::Error,
            OpenError::System(_) => ReturnCode::ErrorResource,
        }
    })
}
