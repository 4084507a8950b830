//! What travels: frames of bytes, version 1.
//!
//! [`Frame`] is the checked view of a frame's bytes, [`Packet`] the plain struct of its legal values, with
//! [`Packet::parse`] and [`Packet::emit`]. Everything is checked once, there: whatever parses is legal, and
//! emitting it gives the same bytes again. A frame that does not parse is to be counted and dropped.
//!
//! All numbers are big-endian; offsets and lengths are in bytes. A name is that of an end ([`EndId`]).
//!
//! | offset | length | header, the same for every frame |
//! |---|---|---|
//! | 0 | 1 | version: 1 |
//! | 1 | 1 | kind |
//! | 2 | 2 | zero |
//! | 4 | 4 | length of the frame, header included; bytes behind it are padding of the medium |
//! | 8 | 8 | the end that the frame is for; zero: none |
//! | 16 | 8 | the end that sends it; zero: none |
//! | 24 | 4 | CRC-32C of the frame, with zeros in these four bytes |
//!
//! | kind | name | offset 28 and on |
//! |---|---|---|
//! | 1 | stream | number of the item (4, modulo 2^32), acknowledgement (4, likewise): the first number not yet received; an item |
//! | 2 | ack | acknowledgement (4) |
//! | 3 | datagram | number of the message (8), a part |
//! | 4 | gone | nothing: the receiving end's peer does not exist |
//! | 5 | hello | nothing: the sending end is there, and has heard of the receiving end if that is named in full |
//! | 6 | probe | nonce (8), to be echoed |
//! | 7 | echo | nonce (8) of the probe |
//! | 16 | request | the sender's terms (8), its address, the address that it asks for |
//! | 17 | pending | nothing: the request has been handed to a program |
//! | 18 | answer | verdict (1): 0 accepted, 1 no match, 2 rejected, 3 other reliability, 4 other transfer size; zero (3); terms (8) if accepted |
//! | 19 | settled | 1 if the connection has come about, else 0 (1) |
//! | 20 | cancel | nothing |
//! | 21 | poke | the sender's address, the receiver's |
//! | 22 | poked | as the poke that it answers |
//!
//! | offset in an item | length | meaning |
//! |---|---|---|
//! | 0 | 1 | 1 part of a send, 2 of an RDMA write, 3 of the answer to an RDMA read, 4 an RDMA read, 5 the end |
//! | 1 | 1 | bit 0: there is immediate data (parts). Of the end, why: 0 disconnected, 1 broken, 2 no receive, 3 bad receive, 4 RDMA denied |
//! | 2 | 2 | zero |
//! | 4 | | a part: immediate data (4) or zero; bytes of the whole message (4); this part's place in it (4); for a write address (8) and memory handle (4), for an answer the read's number (8); the part's bytes |
//! | 4 | | a read: address (8), memory handle (4), bytes (4) |
//! | 4 | | the end: number of the item at fault (8), or zero |
//!
//! A part's bytes end with the frame. It has at least one, unless the whole message has none.
//!
//! | offset in terms | length | meaning |
//! |---|---|---|
//! | 0 | 1 | reliability level: 1, 2 or 4 |
//! | 1 | 1 | bit 0: RDMA writes allowed; bit 1: RDMA reads; of a request, bit 2: it looks for a peer, not for a server |
//! | 2 | 2 | zero |
//! | 4 | 4 | bytes of the longest message |
//!
//! An address is the length of its host part (1, at most 64), that of its discriminator (1, at most 64), and these.

mod bytes;
mod frame;
mod item;
mod malformed;
mod meeting;
mod packet;
mod part;

pub use frame::{EndId, Frame, HEADER, seal};
pub use item::{Closing, Item};
pub use malformed::Malformed;
pub use meeting::{Answer, Meeting, Request};
pub use packet::{Packet, Word};
pub use part::{Chunk, Operation, Part};
