//! Checks whether a NIC that accepts no messages is gone.
//!
//! Some providers do not report a lost peer: `ofi_rxm` tries to connect again and again, and has no room meanwhile. So
//! this module checks by the peer's address:
//!
//! - An Internet address contains the port at which the endpoint listens. If the endpoint is gone, a connection to the
//!   port is refused.
//! - An address of `shm` begins with a process ID. The ID may belong to another process by now; [`started`] tells the
//!   two processes apart.
//!
//! A peer that is only stopped is not gone.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use sovia_sys::call::{self, Errno};
use sovia_sys::{Fd, Result};

/// `struct linger`, which makes close reset the connection.
const RESETS: [i32; 2] = [1, 0];

/// Decodes an endpoint's address, if it is an Internet address.
fn internet(address: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(*address.first_chunk()?);
    let port = u16::from_be_bytes(*address.get(2..)?.first_chunk()?);
    match (family, address.len()) {
        (2, 16) => {
            let ip: [u8; 4] = *address.get(4..)?.first_chunk()?;
            Some((IpAddr::V4(Ipv4Addr::from(ip)), port).into())
        }
        (10, 28) => {
            let ip: [u8; 16] = *address.get(8..)?.first_chunk()?;
            let scope = u32::from_ne_bytes(*address.get(24..)?.first_chunk()?);
            Some(SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, scope).into())
        }
        _ => None,
    }
}

/// Returns the process ID in the address of a `shm` endpoint.
fn process(address: &[u8]) -> Option<u32> {
    let text = core::str::from_utf8(address).ok()?.trim_end_matches('\0');
    let digits = text.strip_prefix("fi_shm://")?;
    let digits = digits.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// The endpoint is there.
    There,
    /// The host says that no endpoint is at the port. An endpoint may come there later.
    Absent,
    /// The process has ended, or there is no route to the host.
    Gone,
    /// The check has no result.
    Unknown,
}

/// Function that checks whether the endpoint of an address is there. The second argument is the start time of its
/// process ([`started`]). The check may take long.
pub(crate) type Ask = fn(&[u8], Option<u64>) -> Presence;

/// Returns the check for a provider. An Internet address means a TCP port only if the provider uses TCP.
pub(crate) fn how(provider: &str) -> Ask {
    match provider.split(';').any(|part| ["tcp", "net", "sockets"].contains(&part)) {
        true => presence,
        false => |address, since| local_presence(address, since).unwrap_or(Presence::Unknown),
    }
}

fn presence(address: &[u8], since: Option<u64>) -> Presence {
    if let Some(presence) = local_presence(address, since) {
        return presence;
    }
    let Some(at) = internet(address) else { return Presence::Unknown };
    match connect(address) {
        // If nothing listens at the port, the kernel may choose the same port for this end, and connect the socket to
        // itself.
        Ok(way) if call::socket_name(way.raw(), false) == Ok(at) => Presence::Absent,
        Ok(_) => Presence::There,
        Err(Errno::ECONNREFUSED) => Presence::Absent,
        Err(Errno::EHOSTUNREACH | Errno::ENETUNREACH) => Presence::Gone,
        Err(_) => Presence::Unknown,
    }
}

/// Connects to an Internet address. The kernel decides how long it waits for an answer, as for all of TCP.
///
/// Closing the connection resets it. If a connection without data ends normally, libfabric 1.17's tcp provider treats
/// the end as an error, and reads its number from a stale `errno`. If that is `EAGAIN`, the provider keeps the socket
/// and never sleeps again. A reset has an error number of its own.
fn connect(address: &[u8]) -> Result<Fd> {
    let family = address.first_chunk().map_or(0, |family| u16::from_ne_bytes(*family));
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    let way = Fd::make(|| call::socket(family.into(), kind, 0))?;
    // Set before the connect, so that the connection is reset even if this process is killed.
    call::setsockopt(way.raw(), libc::SOL_SOCKET, libc::SO_LINGER, &RESETS)?;
    loop {
        match call::connect(way.raw(), address) {
            // The connect is still in progress, and the next call waits for it.
            Err(Errno::EINTR) => {}
            made => return made.map(|()| way),
        }
    }
}

/// Checks a `shm` endpoint, without waiting. Sends of this provider go to memory, so it never reports an error.
pub(crate) fn local_presence(address: &[u8], since: Option<u64>) -> Option<Presence> {
    let now = start_of(process(address)?);
    if now.is_some_and(|now| since.is_none_or(|since| since == now)) {
        return Some(Presence::There);
    }
    if now.is_none() {
        remove_left(address);
    }
    Some(Presence::Gone)
}

/// Returns the start time of the process of a `shm` endpoint. The time distinguishes successive processes with the same
/// ID. Returns `None` for other endpoints, and if there is no such process.
pub(crate) fn started(address: &[u8]) -> Option<u64> {
    start_of(process(address)?)
}

/// Removes the file that an ended process has left behind for its `shm` endpoint.
fn remove_left(address: &[u8]) {
    let text = core::str::from_utf8(address).unwrap_or_default().trim_end_matches('\0');
    // The peer sent this address, so only names in the provider's own form are accepted.
    let is_plain = |name: &&str| name.chars().all(|c| c.is_ascii_digit() || c == ':');
    if let Some(name) = text.strip_prefix("fi_shm://").filter(is_plain) {
        let _ = std::fs::remove_file(format!("/dev/shm/{name}"));
    }
}

/// Returns the start time of a process by the kernel's clock; `None` if there is no such process.
fn start_of(process: u32) -> Option<u64> {
    start_in(&std::fs::read(format!("/proc/{process}/stat")).ok()?)
}

/// Reads the start time from `/proc/PID/stat`. A zombie process counts as ended. A process does not count as ended if
/// only its first thread has ended.
fn start_in(stat: &[u8]) -> Option<u64> {
    // The program's name precedes the state. It may contain parentheses, and bytes that are not UTF-8.
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    let mut fields = core::str::from_utf8(stat.get(end + 1..)?).ok()?.split_ascii_whitespace();
    // Fields: the state is the third, the number of threads the twentieth, and the start time the twenty-second.
    let has_ended = matches!(fields.next()?, "Z" | "X");
    let threads: u32 = fields.nth(16)?.parse().ok()?;
    let start = fields.nth(1)?.parse().ok()?;
    (!has_ended || threads > 1).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Place;
    use std::ffi::OsStr;
    use std::io::{ErrorKind, Read};
    use std::net::TcpListener;
    use std::os::unix::ffi::OsStrExt;
    use std::process::Command;
    use std::sync::{Mutex, PoisonError};

    /// Held while a test checks ports or starts a process, because a new process holds this process's listeners until
    /// exec.
    static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn an_address_names_a_port_or_a_process() {
        for text in ["10.0.0.1:7000", "[fe80::1]:7000"] {
            let place: Place = format!("tcp@{text}").parse().unwrap();
            assert_eq!(internet(&place.host().unwrap()), Some(text.parse().unwrap()));
        }
        assert_eq!(process(b"fi_shm://4711:2\0"), Some(4711));
        assert_eq!((process(b"fi_ns://a"), internet(b"fi_ns://a")), (None, None));
    }

    #[test]
    fn a_port_where_nothing_listens_is_gone_and_one_where_something_does_is_not() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place: Place = format!("tcp@{}", listener.local_addr().unwrap()).parse().unwrap();
        let host = place.host().unwrap();
        assert_eq!(presence(&host, None), Presence::There, "it does not even accept");
        drop(listener);
        assert_eq!(presence(&host, None), Presence::Absent);
        let own = format!("fi_shm://{}", std::process::id());
        assert_eq!(presence(own.as_bytes(), None), Presence::There);
        assert_eq!(
            presence(b"fi_shm://4999999", None),
            Presence::Gone,
            "there are no such numbers"
        );
        assert_eq!(presence(b"fi_ns://a", None), Presence::Unknown);
    }

    #[test]
    fn a_process_whose_name_is_no_text_is_there() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let name = [b"sovia-)\xff".as_slice(), std::process::id().to_string().as_bytes()].concat();
        let path = std::env::temp_dir().join(OsStr::from_bytes(&name));
        // A process has the name of its program's path. The test makes a link, because a copied file could be busy
        // while another test's process has it open.
        std::os::unix::fs::symlink("/bin/sleep", &path).unwrap();
        let mut child = Command::new(&path).arg("600").spawn().unwrap();
        std::fs::remove_file(&path).unwrap();
        let found = presence(format!("fi_shm://{}", child.id()).as_bytes(), None);
        child.kill().and_then(|()| child.wait()).unwrap();
        assert_eq!(found, Presence::There);
    }

    #[test]
    fn a_process_whose_first_thread_has_ended_is_there() {
        let of = |state: &str, threads: u32| {
            let before = "1 2 3 0 -1 4194304 0 0 0 0 0 0 0 0 20 0";
            start_in(format!("7 (a b) {state} {before} {threads} 0 4711 0 0\n").as_bytes())
        };
        assert_eq!(
            (of("S", 1), of("Z", 2), of("Z", 1), of("X", 0)),
            (Some(4711), Some(4711), None, None)
        );
    }

    #[test]
    fn the_port_of_an_address_is_not_asked_where_the_provider_is_not_on_tcp() {
        let place: Place = "tcp@127.0.0.1:1".parse().unwrap();
        let host = place.host().unwrap();
        let asked =
            ["tcp;ofi_rxm", "net;ofi_rxm", "tcp"].map(|provider| how(provider)(&host, None));
        assert_eq!(asked, [Presence::Absent; 3], "no program may have that port here");
        let asked = ["verbs;ofi_rxm", "udp;ofi_rxd"].map(|provider| how(provider)(&host, None));
        assert_eq!(asked, [Presence::Unknown; 2]);
        let own = format!("fi_shm://{}", std::process::id());
        assert_eq!(how("shm")(own.as_bytes(), None), Presence::There);
    }

    #[test]
    fn listener_sees_the_end_of_the_query_as_a_reset() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place: Place = format!("tcp@{}", listener.local_addr().unwrap()).parse().unwrap();
        assert_eq!(presence(&place.host().unwrap(), None), Presence::There);
        let (mut came, _) = listener.accept().unwrap();
        let read = came.read(&mut [0]).map_err(|why| why.kind());
        assert_eq!(read, Err(ErrorKind::ConnectionReset));
    }

    #[test]
    fn reused_process_id_is_not_taken_for_the_ended_process() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let own = format!("fi_shm://{}", std::process::id());
        let since = started(own.as_bytes());
        assert!(since.is_some());
        assert_eq!(presence(own.as_bytes(), since), Presence::There);
        let before = since.map(|since| since - 1);
        assert_eq!(presence(own.as_bytes(), before), Presence::Gone);
        assert_eq!((started(b"fi_shm://4999999"), started(b"fi_ns://a")), (None, None));
        let mut child = Command::new("true").spawn().unwrap();
        let of_child = format!("fi_shm://{}", child.id());
        // The child soon becomes a zombie.
        while started(of_child.as_bytes()).is_some() {
            std::thread::yield_now();
        }
        assert_eq!(presence(of_child.as_bytes(), None), Presence::Gone);
        child.wait().unwrap();
    }
}
