//! Initial sequence numbers of a connection's two directions, which only its two ends know.
//!
//! The kernel chooses the numbers when a connection is made, and shows them to no program. So the agent loads a short
//! BPF program. For each direction of a socket, it reads the current sequence number and the number of bytes
//! transferred (`struct bpf_tcp_sock`, since Linux 5.1). Their difference is the initial number, even while bytes are
//! on their way. The BPF program changes nothing, and does not delay the closing of a socket.

use core::net::{IpAddr, SocketAddr};
use sovia_sys::bpf::{Instruction, Program};

/// Length of the packet that carries the question and the answer.
const PACKET: usize = 128;
/// Position of the address family: 4 or 6.
const FAMILY: usize = 15;
/// Position and lengths of the addresses, laid out as in `struct bpf_sock_tuple`.
const TUPLE: usize = 16;
const TUPLE_V4: usize = 12;
const TUPLE_V6: usize = 36;
/// Positions of the answer's fields.
const STATE: usize = 64;
const RECEIVED_TO: usize = 68;
const ACKNOWLEDGED_TO: usize = 72;
const RECEIVED: usize = 80;
const ACKNOWLEDGED: usize = 88;

/// The first sequence number after the SYN, for each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Numbers {
    /// First number of the bytes that the socket receives.
    pub(crate) received: u32,
    /// First number of the bytes that the socket sends.
    pub(crate) sent: u32,
}

impl Numbers {
    /// Returns true if the numbers belong to the two ends of one connection.
    pub(crate) fn are_of_one(connector: Numbers, acceptor: Numbers) -> bool {
        connector.sent == acceptor.received && connector.received == acceptor.sent
    }
}

/// Reads the numbers of sockets.
#[derive(Debug)]
pub(crate) struct Reader(Program);

impl Reader {
    /// Loads the BPF program.
    ///
    /// # Errors
    /// `EPERM` without `CAP_BPF` and `CAP_NET_ADMIN`.
    pub(crate) fn new() -> sovia_sys::Result<Reader> {
        Program::load(&code()).map(Reader)
    }

    /// Checks that the kernel lets this process read numbers now.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn check(&self) -> sovia_sys::Result<()> {
        self.0.run(&[0; PACKET]).map(drop)
    }

    /// Returns the numbers of the established connection with these addresses, in the calling thread's network
    /// namespace.
    pub(crate) fn read(
        &self,
        local: SocketAddr,
        peer: SocketAddr,
        is_connector: bool,
    ) -> Option<Numbers> {
        let packet = packet(local, peer)?;
        // The kernel may update the socket during a reading. So read until two readings agree.
        let once = || {
            let (found, answer) = self.0.run(&packet).ok()?;
            (found == 1).then(|| numbers(&answer, is_connector)).flatten()
        };
        const TRIES: usize = 16;
        let mut before = once()?;
        for _ in 0..TRIES {
            let now = once()?;
            if now == before {
                return Some(now);
            }
            before = now;
        }
        None
    }
}

fn packet(local: SocketAddr, peer: SocketAddr) -> Option<[u8; PACKET]> {
    let mut packet = [0; PACKET];
    let (family, addresses) = packet[FAMILY..].split_at_mut(TUPLE - FAMILY);
    let ports = match (peer.ip(), local.ip()) {
        (IpAddr::V4(peer), IpAddr::V4(local)) => {
            family[0] = 4;
            addresses[0..4].copy_from_slice(&peer.octets());
            addresses[4..8].copy_from_slice(&local.octets());
            8
        }
        (IpAddr::V6(peer), IpAddr::V6(local)) => {
            family[0] = 6;
            addresses[0..16].copy_from_slice(&peer.octets());
            addresses[16..32].copy_from_slice(&local.octets());
            32
        }
        _ => return None,
    };
    addresses[ports..ports + 2].copy_from_slice(&peer.port().to_be_bytes());
    addresses[ports + 2..ports + 4].copy_from_slice(&local.port().to_be_bytes());
    Some(packet)
}

fn numbers(answer: &[u8; PACKET], is_connector: bool) -> Option<Numbers> {
    const ESTABLISHED: u32 = 1;
    let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|i| answer[at + i]));
    // Sequence numbers count modulo 2^32, so the lower half of a byte count is enough.
    let low = |at: usize| if cfg!(target_endian = "little") { word(at) } else { word(at + 4) };
    // The kernel counts the connector's acknowledged SYN as a byte.
    let opening = u32::from(is_connector);
    (word(STATE) == ESTABLISHED).then(|| Numbers {
        received: word(RECEIVED_TO).wrapping_sub(low(RECEIVED)),
        sent: word(ACKNOWLEDGED_TO).wrapping_sub(low(ACKNOWLEDGED)).wrapping_add(opening),
    })
}

/// Returns the BPF program. Its result is 1 if the socket exists and has numbers.
fn code() -> Vec<Instruction> {
    const LOAD_BYTE: u8 = 0x71;
    const LOAD: u8 = 0x61;
    const LOAD_DOUBLE: u8 = 0x79;
    const STORE: u8 = 0x63;
    const STORE_DOUBLE: u8 = 0x7b;
    const MOVE: u8 = 0xbf;
    const SET: u8 = 0xb7;
    const ADD: u8 = 0x07;
    const IF_EQUAL: u8 = 0x15;
    const IF_GREATER: u8 = 0x2d;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    // Offsets in `struct __sk_buff`.
    const DATA: i16 = 76;
    const DATA_END: i16 = 80;
    // Numbers of the kernel's helper functions.
    const SK_LOOKUP_TCP: i32 = 84;
    const SK_RELEASE: i32 = 86;
    const TCP_SOCK: i32 = 96;
    // Offsets in `struct bpf_sock`, then in `struct bpf_tcp_sock`.
    const SOCK_STATE: i16 = 72;
    const RCV_NXT: i16 = 16;
    const SND_UNA: i16 = 24;
    const BYTES_RECEIVED: i16 = 80;
    const BYTES_ACKED: i16 = 88;

    let instruction = |code, to: u8, from: u8, offset: i16, constant: i32| Instruction {
        code,
        registers: to | from << 4,
        offset,
        constant,
    };
    // Registers: 6 the context, 7 the packet, 8 the result, 9 the socket.
    let mut code = vec![
        instruction(MOVE, 6, 1, 0, 0),
        instruction(SET, 8, 0, 0, 0),
        instruction(LOAD, 7, 1, DATA, 0),
        instruction(LOAD, 3, 1, DATA_END, 0),
        instruction(MOVE, 2, 7, 0, 0),
        instruction(ADD, 2, 0, 0, PACKET as i32),
        // Jump to the end if the packet is too short.
        instruction(IF_GREATER, 2, 3, 28, 0),
        instruction(LOAD_BYTE, 4, 7, FAMILY as i16, 0),
        instruction(SET, 3, 0, 0, TUPLE_V6 as i32),
        instruction(IF_EQUAL, 4, 0, 1, 6),
        instruction(SET, 3, 0, 0, TUPLE_V4 as i32),
        instruction(MOVE, 1, 6, 0, 0),
        instruction(MOVE, 2, 7, 0, 0),
        instruction(ADD, 2, 0, 0, TUPLE as i32),
        // Search in the caller's network namespace.
        instruction(SET, 4, 0, 0, -1),
        instruction(SET, 5, 0, 0, 0),
        instruction(CALL, 0, 0, 0, SK_LOOKUP_TCP),
        // Jump to the end if there is no socket.
        instruction(IF_EQUAL, 0, 0, 17, 0),
        instruction(MOVE, 9, 0, 0, 0),
        instruction(LOAD, 1, 9, SOCK_STATE, 0),
        instruction(STORE, 7, 1, STATE as i16, 0),
        instruction(MOVE, 1, 9, 0, 0),
        instruction(CALL, 0, 0, 0, TCP_SOCK),
        // Jump to the release if the socket has no `struct bpf_tcp_sock`.
        instruction(IF_EQUAL, 0, 0, 8 + 1, 0),
    ];
    for (load, store, from, to) in [
        (LOAD, STORE, RCV_NXT, RECEIVED_TO),
        (LOAD, STORE, SND_UNA, ACKNOWLEDGED_TO),
        (LOAD_DOUBLE, STORE_DOUBLE, BYTES_RECEIVED, RECEIVED),
        (LOAD_DOUBLE, STORE_DOUBLE, BYTES_ACKED, ACKNOWLEDGED),
    ] {
        code.push(instruction(load, 1, 0, from, 0));
        code.push(instruction(store, 7, 1, to as i16, 0));
    }
    code.extend([
        instruction(SET, 8, 0, 0, 1),
        instruction(MOVE, 1, 9, 0, 0),
        instruction(CALL, 0, 0, 0, SK_RELEASE),
        instruction(MOVE, 0, 8, 0, 0),
        instruction(EXIT, 0, 0, 0, 0),
    ]);
    code
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn both_ends_have_the_same_numbers_and_no_other_connection_has() {
        let reader = match Reader::new() {
            Ok(reader) => reader,
            Err(error) => {
                assert_eq!(error, sovia_sys::Errno::EPERM);
                println!("SKIPPED: reading sequence numbers: {error}");
                return;
            }
        };
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let mut all = Vec::new();
            for bytes in [0, 1, 70_000, 1 << 20] {
                let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                let (mut server, _) = listener.accept().unwrap();
                let reads = std::thread::spawn(move || {
                    server.read_exact(&mut vec![0; bytes]).unwrap();
                    server.write_all(&vec![0; bytes / 2]).unwrap();
                    server
                });
                client.write_all(&vec![0; bytes]).unwrap();
                let server = reads.join().unwrap();
                client.read_exact(&mut vec![0; bytes / 2]).unwrap();
                let (near, far) = (client.local_addr().unwrap(), server.local_addr().unwrap());
                let connector = reader.read(near, far, true).unwrap();
                let acceptor = reader.read(far, near, false).unwrap();
                all.push((connector, acceptor, client, server));
            }
            for (i, (connector, ..)) in all.iter().enumerate() {
                for (j, (_, acceptor, ..)) in all.iter().enumerate() {
                    assert_eq!(Numbers::are_of_one(*connector, *acceptor), i == j, "{i} and {j}");
                }
            }
            let free = SocketAddr::new(listener.local_addr().unwrap().ip(), 1);
            assert_eq!(reader.read(free, free, true), None);
            // A listening socket is not a connection.
            let nowhere = SocketAddr::new(free.ip(), 9);
            assert_eq!(reader.read(listener.local_addr().unwrap(), nowhere, false), None);
        }
    }
}
