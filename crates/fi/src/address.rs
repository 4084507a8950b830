//! Addresses of endpoints.

use emp_eth::Whereabouts;
use sovia_sys::datagram::Name;
use sovia_sys::{call, netns};
use std::fmt::Write as _;
use std::sync::OnceLock;

/// Length of an address in bytes. It equals `FI_NAME_MAX`; Open MPI reserves no more.
pub const ADDRESS_LEN: usize = 64;

const MAGIC: [u8; 8] = *b"SoviaFi\x01";
const HOST_AT: usize = 8;
const KEY_AT: usize = 16;
const PLACE_AT: usize = 32;
const SECRET_AT: usize = 56;
const PREFIX: &str = "fi_sovia://";

/// Address of an endpoint: the host's number, a key that is unique to the endpoint, a place and a secret. Other hosts
/// reach the endpoint at the place, with the secret. Both are zero if other hosts cannot reach the endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address([u8; ADDRESS_LEN]);

impl Address {
    /// Returns a new address with a random key, without place and secret.
    ///
    /// # Errors
    /// Returns the errors of `getrandom`.
    pub fn new() -> sovia_sys::Result<Address> {
        let mut bytes = [0; ADDRESS_LEN];
        bytes[..HOST_AT].copy_from_slice(&MAGIC);
        bytes[HOST_AT..KEY_AT].copy_from_slice(host());
        call::getrandom(&mut bytes[KEY_AT..PLACE_AT])?;
        Ok(Address(bytes))
    }

    /// Checks an address that comes from another process; `None` if the bytes are no address.
    pub fn read(bytes: &[u8]) -> Option<Address> {
        let bytes: [u8; ADDRESS_LEN] = bytes.get(..ADDRESS_LEN)?.try_into().ok()?;
        let address = Address(bytes);
        let is_near_only = bytes[PLACE_AT..].iter().all(|&b| b == 0);
        (bytes[..HOST_AT] == MAGIC && (is_near_only || address.far().is_some())).then_some(address)
    }

    /// Returns this address with the place and secret that other hosts need.
    pub(crate) fn with_far(mut self, place: Whereabouts, secret: u64) -> Address {
        self.0[PLACE_AT..SECRET_AT].copy_from_slice(&place.bytes());
        self.0[SECRET_AT..].copy_from_slice(&secret.to_le_bytes());
        self
    }

    /// Returns the place of the endpoint for other hosts, and the secret that they need.
    pub(crate) fn far(&self) -> Option<(Whereabouts, u64)> {
        let (mut place, mut secret) = ([0; SECRET_AT - PLACE_AT], [0; 8]);
        place.copy_from_slice(&self.0[PLACE_AT..SECRET_AT]);
        secret.copy_from_slice(&self.0[SECRET_AT..]);
        Some((Whereabouts::read(place)?, u64::from_le_bytes(secret)))
    }

    /// Returns the bytes of the address.
    pub fn bytes(&self) -> &[u8; ADDRESS_LEN] {
        &self.0
    }

    /// Returns true if the endpoint is on this host and in this network namespace, so that the name of its socket is
    /// visible.
    pub fn is_near(&self) -> bool {
        self.0[HOST_AT..KEY_AT] == *host()
    }

    /// Returns the name of the socket on which the endpoint waits for peers.
    pub(crate) fn name(&self) -> Name {
        let mut name = String::from("sovia-fi-");
        hex(&mut name, &self.0[KEY_AT..PLACE_AT]);
        Name::new(name.as_bytes()).unwrap_or_else(|| unreachable!("41 bytes are a name"))
    }

    /// Returns the address as a line of text.
    pub fn to_text(&self) -> String {
        let mut text = String::from(PREFIX);
        hex(&mut text, &self.0[HOST_AT..KEY_AT]);
        text.push(':');
        hex(&mut text, &self.0[KEY_AT..PLACE_AT]);
        if self.far().is_some() {
            text.push(':');
            hex(&mut text, &self.0[PLACE_AT..]);
        }
        text
    }

    /// Parses the text that [`Address::to_text`] returns.
    pub fn from_text(text: &str) -> Option<Address> {
        let (host, rest) = text.strip_prefix(PREFIX)?.split_once(':')?;
        let (key, far) = rest.split_once(':').map_or((rest, None), |(key, far)| (key, Some(far)));
        let mut bytes = [0; ADDRESS_LEN];
        bytes[..HOST_AT].copy_from_slice(&MAGIC);
        unhex(host, &mut bytes[HOST_AT..KEY_AT])?;
        unhex(key, &mut bytes[KEY_AT..PLACE_AT])?;
        if let Some(far) = far {
            unhex(far, &mut bytes[PLACE_AT..])?;
        }
        Address::read(&bytes)
    }
}

fn hex(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
}

fn unhex(text: &str, out: &mut [u8]) -> Option<()> {
    if text.len() != 2 * out.len() || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    for (i, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * i..2 * i + 2)?, 16).ok()?;
    }
    Some(())
}

/// Returns a number for this boot of this machine and this network namespace. Abstract socket names are known only
/// within a network namespace.
fn host() -> &'static [u8; KEY_AT - HOST_AT] {
    static HOST: OnceLock<[u8; KEY_AT - HOST_AT]> = OnceLock::new();
    HOST.get_or_init(|| {
        let mut boot = [0; 16];
        let digits: String = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .unwrap_or_default()
            .chars()
            .filter(char::is_ascii_hexdigit)
            .collect();
        if unhex(&digits, &mut boot).is_none() {
            // Without a boot identifier, a random number is safe: no other process is mistaken for a neighbour.
            let _ = call::getrandom(&mut boot);
        }
        let mut host = [0; KEY_AT - HOST_AT];
        for (at, byte) in boot.into_iter().enumerate() {
            host[at % (KEY_AT - HOST_AT)] ^= byte;
        }
        let space = netns::current().and_then(|space| netns::id(&space));
        let inode = space.map_or(0, |(_, inode)| inode);
        for (byte, of_space) in host.iter_mut().zip(inode.to_le_bytes()) {
            *byte ^= of_space;
        }
        host
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back_from_bytes_and_text() {
        let address = Address::new().unwrap();
        assert_ne!(address, Address::new().unwrap());
        assert!(address.is_near());
        assert_eq!(Address::read(address.bytes()), Some(address));
        assert_eq!(Address::from_text(&address.to_text()), Some(address));
        let mut far = *address.bytes();
        far[HOST_AT] ^= 1;
        assert!(!Address::read(&far).unwrap().is_near());
        let place = Whereabouts::from(&emp_eth::Address::Udp("10.0.0.1:7000".parse().unwrap()));
        let far = address.with_far(place, 77);
        assert_eq!((address.far(), far.far()), (None, Some((place, 77))));
        assert_eq!(Address::read(far.bytes()), Some(far));
        assert_eq!(Address::from_text(&far.to_text()), Some(far));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let address = Address::new().unwrap();
        assert_eq!(Address::read(&address.bytes()[1..]), None);
        let mut bytes = *address.bytes();
        bytes[0] ^= 1;
        assert_eq!(Address::read(&bytes), None);
        bytes = *address.bytes();
        bytes[ADDRESS_LEN - 1] = 1;
        assert_eq!(Address::read(&bytes), None);
        for text in ["", "localhost", "fi_sovia://", "fi_sovia://00:11", "fi_sovia://é:é"] {
            assert_eq!(Address::from_text(text), None, "{text}");
        }
    }
}
