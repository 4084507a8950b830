//! The program that the device runs: frames of one EtherType to the sockets, all others to the kernel.

use crate::ethernet::HEADER;
use sovia_sys::bpf::{Instruction, SocketMap};

/// Where a header has its EtherType.
const ETHER_TYPE_AT: i16 = 12;

/// The program. A frame of a queue without a socket goes to the kernel as well.
pub(super) fn code(ether_type: u16, sockets: &SocketMap) -> Vec<Instruction> {
    const LOAD: u8 = 0x61;
    const LOAD_HALF: u8 = 0x69;
    const LOAD_CONSTANT: u8 = 0x18;
    const MOVE: u8 = 0xbf;
    const SET: u8 = 0xb7;
    const ADD: u8 = 0x07;
    const IF_NOT_EQUAL: u8 = 0x55;
    const IF_GREATER: u8 = 0x2d;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    // Of `struct xdp_md`.
    const DATA: i16 = 0;
    const DATA_END: i16 = 4;
    const RECEIVE_QUEUE: i16 = 16;
    // In the place of a register that is read: the constant is a map's descriptor.
    const MAP: u8 = 1;
    const REDIRECT_MAP: i32 = 51;
    /// `XDP_PASS`.
    const TO_THE_KERNEL: i32 = 2;

    let instruction = |code, to: u8, from: u8, offset: i16, constant: i32| Instruction {
        code,
        registers: to | from << 4,
        offset,
        constant,
    };
    // Loaded as this host reads it.
    let ether_type = i32::from(ether_type.to_be());
    vec![
        instruction(LOAD, 2, 1, DATA, 0),
        instruction(LOAD, 3, 1, DATA_END, 0),
        instruction(MOVE, 4, 2, 0, 0),
        instruction(ADD, 4, 0, 0, HEADER as i32),
        // To the last two where the header is not whole, or has another EtherType.
        instruction(IF_GREATER, 4, 3, 8, 0),
        instruction(LOAD_HALF, 4, 2, ETHER_TYPE_AT, 0),
        instruction(IF_NOT_EQUAL, 4, 0, 6, ether_type),
        instruction(LOAD, 2, 1, RECEIVE_QUEUE, 0),
        // Two instructions' room for one constant.
        instruction(LOAD_CONSTANT, 1, MAP, 0, sockets.raw()),
        instruction(0, 0, 0, 0, 0),
        // What is returned where the queue has no socket.
        instruction(SET, 3, 0, 0, TO_THE_KERNEL),
        instruction(CALL, 0, 0, 0, REDIRECT_MAP),
        instruction(EXIT, 0, 0, 0, 0),
        instruction(SET, 0, 0, 0, TO_THE_KERNEL),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}
