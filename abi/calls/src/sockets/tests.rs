use super::*;
use crate::tests::kernel::Scratch;
use crate::tests::start;

#[test]
fn an_address_that_is_connected_to_is_decoded_by_its_family() {
    start();
    let mut v4 = [0u8; 16];
    v4[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    v4[2..8].copy_from_slice(&[0x1f, 0x90, 10, 0, 0, 7]);
    let mut v6 = [0u8; 28];
    v6[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
    v6[2..4].copy_from_slice(&[0x1f, 0x91]);
    v6[23] = 1;
    for (bytes, wanted) in [(&v4[..], "10.0.0.7:8080"), (&v6[..], "[::1]:8081")] {
        match server(bytes.as_ptr().cast()) {
            Server::At(found) => assert_eq!(found, wanted.parse().unwrap()),
            _ => panic!("{wanted} is not found"),
        }
    }
    let mut unix = [0u8; 16];
    unix[..2].copy_from_slice(&(libc::AF_UNIX as u16).to_ne_bytes());
    assert!(matches!(server(unix.as_ptr().cast()), Server::Unknown));
}

#[test]
fn an_address_that_cannot_be_read_has_no_family_and_no_server() {
    start();
    let scratch = Scratch::new();
    for at in [0, 16, scratch.end(), scratch.edge(1), 0xdead_0000_0000_0000] {
        assert_eq!(family(at as *const sockaddr), None, "{at:x}");
        assert!(matches!(server(at as *const sockaddr), Server::Unknown), "{at:x}");
    }
    let cut = scratch.edge(2);
    // SAFETY: the two bytes at `cut` belong to the test's `Scratch`.
    unsafe { (cut as *mut u16).write_unaligned(libc::AF_INET as u16) };
    assert_eq!(family(cut as *const sockaddr), Some(libc::AF_INET));
    assert!(matches!(server(cut as *const sockaddr), Server::Unknown));
}

#[test]
fn options_by_which_the_kernel_works_on_the_stream_are_known_by_level_and_name() {
    for (level, name, needs) in [
        (libc::IPPROTO_TCP, libc::TCP_ULP, true),
        (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, true),
        (libc::SOL_SOCKET, libc::SO_ATTACH_BPF, true),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, false),
        (libc::SOL_SOCKET, libc::TCP_ULP, false),
        (libc::IPPROTO_TCP, libc::SO_ATTACH_FILTER, false),
        (-1, -1, false),
    ] {
        assert_eq!(needs_kernel(level, name), needs, "{level}, {name}");
    }
}

#[test]
fn only_new_tcp_sockets_are_noted() {
    start();
    for (domain, kind, protocol, is_noted) in [
        (libc::AF_INET, libc::SOCK_STREAM, 0, true),
        (libc::AF_INET6, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, libc::IPPROTO_TCP, true),
        (libc::AF_INET, libc::SOCK_DGRAM, 0, false),
        (libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_SCTP, false),
        (libc::AF_UNIX, libc::SOCK_STREAM, 0, false),
    ] {
        let fd = crate::tests::kernel::closed_number();
        assert_eq!(made(fd, domain, kind, protocol), fd);
        assert_eq!(table::is_noted_tcp(fd), is_noted, "{domain}, {kind}, {protocol}");
        table::forget_tcp(fd);
    }
    assert_eq!(made(-1, libc::AF_INET, libc::SOCK_STREAM, 0), -1);
}
