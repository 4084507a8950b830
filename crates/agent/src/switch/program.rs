//! A program of the switch: its rings, its socket, and its share of the port.

use crate::closer::{self, take_leave};
use core::fmt;
use core::ops::AddAssign;
use sovia_port::Address;
use sovia_port::agent::ring::{self, Broken, Consumer, Geometry, Producer};
use sovia_port::agent::said::{FromAgent, SAID_MAX, Welcome};
use sovia_sys::Errno;
use sovia_sys::seqpacket::Packets;

/// Bytes that a program may send in its turn. A longer frame waits until several turns together allow it.
const QUANTUM: usize = 16 << 10;
/// Cost of a frame in addition to its bytes.
const EACH: usize = 64;
/// Maximum credit of a program: the cost of the longest frame, and one turn. Otherwise a program could save any
/// credit: it shows a frame before each turn and removes the frame during the turn.
const MOST: usize = ring::FRAME_MAX as usize + EACH + QUANTUM;

/// A program that the agent serves.
#[derive(Debug)]
pub(super) struct Program {
    packets: Packets,
    pub(super) uid: u32,
    pub(super) hears: Consumer,
    tells: Producer,
    /// Bytes that the program may still send.
    credit: usize,
    /// Set while the program's next frame waits for room in the port.
    pub(super) waits_for_port: bool,
    /// Set when frames have been put in the ring since the program was last notified.
    is_to_ring: bool,
    /// Maximum number of frames still passed on after the program has disconnected.
    last: Option<u32>,
    pub(super) lost: Lost,
}

/// Dropped frames of one or more programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Lost {
    /// The program was not allowed to send the frame.
    pub(super) forged: u64,
    /// The frame was invalid.
    pub(super) malformed: u64,
    /// The port does not work, or refused the frame.
    pub(super) unsendable: u64,
    /// The program left no room in its ring.
    pub(super) untaken: u64,
}

impl AddAssign for Lost {
    fn add_assign(&mut self, other: Lost) {
        self.forged += other.forged;
        self.malformed += other.malformed;
        self.unsendable += other.unsendable;
        self.untaken += other.untaken;
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lost { forged, malformed, unsendable, untaken } = self;
        write!(
            f,
            "frames dropped: {forged} forged, {malformed} malformed, {unsendable} refused by the port, \
             {untaken} without room at a program"
        )
    }
}

/// Reason why the agent no longer serves a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Ended {
    #[error("the program has disconnected")]
    Gone,
    #[error("the memory that the program shares is corrupt")]
    Broken,
    #[error("the program sent an invalid message")]
    Nonsense,
    #[error("the program listens at more discriminators than the agent allows")]
    Discriminators,
}

impl From<Broken> for Ended {
    fn from(Broken: Broken) -> Ended {
        Ended::Broken
    }
}

impl Program {
    /// Serves the program at the other end of a socket: sends the terms and the shared memory.
    ///
    /// # Errors
    /// The error of a system call.
    pub(super) fn serve(
        packets: Packets,
        uid: u32,
        (prefix, link_checks, own): (u16, bool, Address),
        geometry: Geometry,
    ) -> sovia_sys::Result<Program> {
        let (hears, tells, memory) = match ring::make(geometry) {
            Ok(made) => made,
            Err(error) => {
                take_leave(&packets, uid);
                return Err(error);
            }
        };
        let program = Program {
            packets,
            uid,
            hears,
            tells,
            credit: 0,
            waits_for_port: false,
            is_to_ring: false,
            last: None,
            lost: Lost::default(),
        };
        let welcome = FromAgent::Welcome(Welcome { prefix, link_checks, own, geometry });
        program.packets.send(&welcome.encode(), &[memory.raw()])?;
        Ok(program)
    }

    /// Returns the socket's descriptor.
    pub(super) fn raw(&self) -> i32 {
        self.packets.raw()
    }

    /// Receives the program's next message; `None` if there is none.
    ///
    /// # Errors
    /// [`Ended`].
    pub(super) fn hear<'a>(
        &self,
        bytes: &'a mut [u8; SAID_MAX + 32],
    ) -> Result<Option<&'a [u8]>, Ended> {
        closer::now_of(self.uid);
        match self.packets.receive(bytes) {
            Ok(received) if received.len == 0 => Err(Ended::Gone),
            Ok(received) if received.truncated || !received.fds.is_empty() => Err(Ended::Nonsense),
            Ok(received) => Ok(Some(&bytes[..received.len])),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(_) => Err(Ended::Gone),
        }
    }

    /// Begins the program's turn and adds to its credit.
    pub(super) fn begin_turn(&mut self) {
        let has_waited = core::mem::take(&mut self.waits_for_port);
        self.credit = match self.hears.is_empty() {
            // A program with nothing to send saves no credit.
            true => 0,
            // This turn continues the last one, which ended because the port had no room.
            false if has_waited => self.credit,
            false => (self.credit + QUANTUM).min(MOST),
        };
    }

    /// Copies the program's next frame and returns its destination, if the credit allows the frame.
    ///
    /// # Errors
    /// [`Ended::Broken`].
    pub(super) fn next(&self, frame: &mut Vec<u8>) -> Result<Option<Address>, Ended> {
        let to = self.hears.peek(frame)?;
        Ok(to.filter(|_| frame.len() + EACH <= self.credit))
    }

    /// Removes the program's next frame, of `len` bytes. `more` is its extra cost.
    ///
    /// # Errors
    /// [`Ended::Gone`]: this was the last frame of a program that has disconnected.
    pub(super) fn done(&mut self, len: usize, more: usize) -> Result<(), Ended> {
        self.credit = self.credit.saturating_sub(len + EACH + more);
        self.hears.advance();
        match &mut self.last {
            None => Ok(()),
            Some(last) => {
                *last = last.saturating_sub(1);
                if *last == 0 || self.hears.is_empty() { Err(Ended::Gone) } else { Ok(()) }
            }
        }
    }

    /// Returns true if frames of a program that has disconnected must still be passed on.
    ///
    /// The frames in its ring of `slots` slots are the program's last messages to its peers. With a socket, the
    /// kernel would deliver them, too. Another process may have the memory and continue to write. So the agent takes
    /// no more frames than the ring can hold.
    pub(super) fn has_last_words(&mut self, slots: u32) -> bool {
        *self.last.get_or_insert(slots) > 0 && !self.hears.is_empty()
    }

    /// Puts a frame in the program's ring, if more than `spared` slots are free. Counts a dropped frame.
    ///
    /// # Errors
    /// [`Ended::Broken`].
    pub(super) fn tell(&mut self, from: &Address, frame: &[u8], spared: u32) -> Result<(), Ended> {
        if self.tells.has_room(spared + 1)? && self.tells.put(from, frame)? {
            self.is_to_ring = true;
        } else {
            self.lost.untaken += 1;
        }
        Ok(())
    }

    /// Notifies the program if it sleeps and has frames.
    pub(super) fn ring(&mut self) {
        if core::mem::take(&mut self.is_to_ring) && self.tells.is_to_ring() {
            // If the socket is full, the program has unread notifications, and will look at its ring.
            let _ = self.packets.send(&FromAgent::Bell.encode(), &[]);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        take_leave(&self.packets, self.uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::FileExt;

    /// Position of the program's first outgoing slot (`sovia_port::agent::ring`).
    const SLOT: u64 = 4096;

    /// Makes a program, and the memory that it shares with the agent, as a file.
    fn served() -> (Program, Packets, File) {
        let own = Address::Mac([2, 0, 0, 0, 0, 1]);
        let (theirs, packets) = Packets::pair().unwrap();
        let geometry = Geometry::of(1500).unwrap();
        let program = Program::serve(packets, 0, (1, false, own), geometry).unwrap();
        let memory = theirs.receive(&mut [0; SAID_MAX + 1]).unwrap().fds.pop().unwrap();
        (program, theirs, File::from(OwnedFd::from(memory)))
    }

    /// Otherwise the program could send all its credit in one turn, while every other program waits.
    #[test]
    fn program_whose_frame_vanishes_in_its_turn_saves_up_no_more_than_a_frame_and_a_turn() {
        let (mut program, _theirs, memory) = served();
        let mut frame = Vec::new();
        for _ in 0..100 {
            memory.write_all_at(&1u64.to_le_bytes(), SLOT).unwrap();
            // The bytes of a valid address.
            memory.write_all_at(&1u64.to_le_bytes(), SLOT + 8).unwrap();
            program.begin_turn();
            memory.write_all_at(&0u64.to_le_bytes(), SLOT).unwrap();
            assert_eq!(program.next(&mut frame), Ok(None));
        }
        assert_eq!(program.credit, MOST);
        program.begin_turn();
        assert_eq!(program.credit, 0);
    }
}
