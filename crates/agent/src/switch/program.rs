//! A program: its rings, its socket, its share.

use crate::closer::{self, take_leave};
use core::fmt;
use core::ops::AddAssign;
use sovia_port::Address;
use sovia_port::agent::ring::{self, Broken, Consumer, Geometry, Producer};
use sovia_port::agent::said::{FromAgent, SAID_MAX, Welcome};
use sovia_sys::Errno;
use sovia_sys::seqpacket::Packets;

/// What a program may send in its turn, in bytes. What is longer waits until several turns together allow it.
const QUANTUM: usize = 16 << 10;
/// What a frame costs beside its bytes.
const EACH: usize = 64;
/// What a program may have saved up in all: the longest frame's cost, and a turn. One whose next frame is there when its turn begins,
/// and is not when it is to be taken, would save up as much as it likes.
const MOST: usize = ring::FRAME_MAX as usize + EACH + QUANTUM;

/// A program that the agent serves.
#[derive(Debug)]
pub(super) struct Program {
    packets: Packets,
    pub(super) uid: u32,
    pub(super) hears: Consumer,
    tells: Producer,
    /// What it may send still.
    credit: usize,
    /// Its next frame waits for room in the port.
    pub(super) waits_for_port: bool,
    /// Frames have been put in its ring since it was last rung, if it slept.
    is_to_ring: bool,
    /// The program has gone: frames of its that are passed on still, at most.
    last: Option<u32>,
    pub(super) lost: Lost,
}

/// Frames that were dropped, of one program or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Lost {
    /// The program was not allowed to send them.
    pub(super) forged: u64,
    /// They were none.
    pub(super) malformed: u64,
    /// The port does not work, or does not take them.
    pub(super) unsendable: u64,
    /// The program had left no room for them.
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

/// Why a program is served no more.
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
    /// Serves the program at the other end of that socket: it is told its terms, and has the memory.
    ///
    /// # Errors
    /// The kernel's.
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

    /// The socket's descriptor.
    pub(super) fn raw(&self) -> i32 {
        self.packets.raw()
    }

    /// Takes its next message; `None` if there is none.
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

    /// Its turn begins.
    pub(super) fn begin_turn(&mut self) {
        let has_waited = core::mem::take(&mut self.waits_for_port);
        self.credit = match self.hears.is_empty() {
            // One that has nothing to send saves nothing up.
            true => 0,
            // Nor does one whose last turn goes on, since the port had no room for all of it.
            false if has_waited => self.credit,
            false => (self.credit + QUANTUM).min(MOST),
        };
    }

    /// Its next frame, copied, and where that is to go, if its turn allows it.
    ///
    /// # Errors
    /// [`Ended::Broken`].
    pub(super) fn next(&self, frame: &mut Vec<u8>) -> Result<Option<Address>, Ended> {
        let to = self.hears.peek(frame)?;
        Ok(to.filter(|_| frame.len() + EACH <= self.credit))
    }

    /// Its next frame, of that many bytes, has been dealt with, at some cost beyond that of others.
    ///
    /// # Errors
    /// [`Ended::Gone`]: it was the last one of a program that has gone.
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

    /// The program has gone. What it had sent before lies in its ring of `slots` slots, as it would lie in the kernel had it gone by
    /// a socket: its last words to its peers. False if there are none any more. Another process may have that memory and go on
    /// writing to it, so no more frames than the ring holds are taken from here on.
    pub(super) fn has_last_words(&mut self, slots: u32) -> bool {
        *self.last.get_or_insert(slots) > 0 && !self.hears.is_empty()
    }

    /// Puts a frame in its ring, where that has so many slots free and one more.
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

    /// Rings it if it sleeps and there are frames for it.
    pub(super) fn ring(&mut self) {
        if core::mem::take(&mut self.is_to_ring) && self.tells.is_to_ring() {
            // Where there is no room it has not taken earlier ones, and will look.
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

    /// Where the first slot of what a program sends begins (`sovia_port::agent::ring`).
    const SLOT: u64 = 4096;

    /// A program, and the memory that it shares with the agent, as a file.
    fn served() -> (Program, Packets, File) {
        let own = Address::Mac([2, 0, 0, 0, 0, 1]);
        let (theirs, packets) = Packets::pair().unwrap();
        let geometry = Geometry::of(1500).unwrap();
        let program = Program::serve(packets, 0, (1, false, own), geometry).unwrap();
        let memory = theirs.receive(&mut [0; SAID_MAX + 1]).unwrap().fds.pop().unwrap();
        (program, theirs, File::from(OwnedFd::from(memory)))
    }

    /// Else it could send all of that in one turn, and every other program would wait.
    #[test]
    fn program_whose_frame_vanishes_in_its_turn_saves_up_no_more_than_a_frame_and_a_turn() {
        let (mut program, _theirs, memory) = served();
        let mut frame = Vec::new();
        for _ in 0..100 {
            memory.write_all_at(&1u64.to_le_bytes(), SLOT).unwrap();
            // An address, as it is there.
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
