//! Chooses the NIC for a device's name.

use crate::boundary::complain;
use sovia_nic::OpenError;
pub(crate) use sovia_nic::{AnyConnection, AnyCq, AnyNic, AnyVi};
use via::ReturnCode;

/// Environment variable with the provider.
const PROVIDER: &str = "SOVIA_VIPL_PROVIDER";
/// Provider if the variable is not set.
const DEFAULT_PROVIDER: &str = "shm";
/// Environment variable with the NIC that all device names stand for.
const NIC: &str = "SOVIA_VIPL_NIC";
/// NIC if the variable is not set.
const DEFAULT_NIC: &str = "vipl";
/// Value that makes each device name a NIC of its own.
const EACH: &str = "*";

/// Returns the value of an environment variable; `None` if it is not set or empty.
pub(crate) fn setting(name: &str) -> Option<String> {
    std::env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(|value| value.to_string_lossy().into_owned())
}

/// Opens the NIC for a device's name.
///
/// # Errors
/// `VIP_ERROR` for an invalid environment variable, `VIP_ERROR_RESOURCE` if the system lacks a resource. Both print a
/// line on standard error.
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
