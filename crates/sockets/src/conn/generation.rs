//! Begins and ends the generations of a connection's slot. In each generation, the slot has one connection.

use super::{Conn, Phase, Role, flag};
use crate::process_slots;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use sovia_proto::path::{Rx, Tx};

impl Conn {
    /// Initialises a slot that the caller has allocated, for a new connection on TCP. Returns the connection's
    /// generation.
    pub fn open(&self, index: u32, role: Role) -> u32 {
        self.index.store(index, Ordering::Relaxed);
        let generation = self.generation.load(Ordering::Relaxed);
        self.flags
            .store(if role == Role::Connector { flag::CONNECTOR } else { 0 }, Ordering::Relaxed);
        self.tx.store(Tx::Tcp as u32, Ordering::Relaxed);
        self.rx.store(Rx::Tcp as u32, Ordering::Relaxed);
        self.references.store(process_slots::only_me(), Ordering::Relaxed);
        self.use_memory(0);
        self.rx_pins.clear();
        self.tx_pins.clear();
        // Stores zero word by word, which takes one instruction each. The time matters for programs that open many
        // short connections.
        let zero = |word: &AtomicU32| word.store(0, Ordering::Relaxed);
        zero(&self.transfers);
        zero(&self.sleeps);
        zero(&self.stay);
        zero(&self.loans);
        zero(&self.error);
        zero(&self.relaying);
        zero(&self.lent);
        zero(&self.leaves_for);
        zero(&self.again);
        zero(&self.reports_times);
        zero(&self.sends_ahead);
        zero(&self.holds);
        self.lock.begin_anew();
        self.approach.forget();
        self.handler_wake_word.clear();
        self.choice.forget();
        self.saved_keepalive.forget();
        let zero = |word: &AtomicU64| word.store(0, Ordering::Relaxed);
        zero(&self.rx_tcp);
        zero(&self.tx_tcp);
        zero(&self.receive_timeout);
        zero(&self.send_timeout);
        self.phase.store(Phase::Eligible as u32, Ordering::Release);
        generation
    }

    /// Marks the counts of bytes on TCP as too low, because the socket carried bytes before this generation. Then
    /// the kernel's counts are used.
    pub(crate) fn has_carried(&self) {
        self.rx_pins.abandon();
        self.tx_pins.abandon();
    }

    /// Makes this slot a copy of `other`, for calls in progress that still refer to the connection. The copy stays
    /// on TCP for good, and its slot is never reused. Requires that this slot is all zero.
    pub(crate) fn retire(&self, other: &Conn) {
        let copy = |to: &AtomicU32, from: &AtomicU32| {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        };
        copy(&self.generation, &other.generation);
        copy(&self.flags, &other.flags);
        copy(&self.stay, &other.stay);
        self.rx_pins.copy_from(&other.rx_pins);
        self.tx_pins.copy_from(&other.tx_pins);
        self.set_tx(Tx::Back);
        self.set_rx(Rx::Back);
        for (to, from) in self.waiting.iter().zip(&other.waiting) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.set_phase(Phase::Plain);
    }

    /// Ends `generation`, which invalidates all references to the connection. Returns true for exactly one caller
    /// per generation, even if two processes call this at the same time. Only that caller may free the slot.
    #[must_use]
    pub fn end(&self, generation: u32) -> bool {
        sovia_sys::stall::point(sovia_sys::stall::At::GivingBack);
        let now = self.generation.load(Ordering::Acquire);
        if (now ^ generation) & 0xff_ffff != 0 {
            return false;
        }
        let next = now.wrapping_add(1);
        self.note_spread(next);
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        if self.generation.compare_exchange(now, next, success, failure).is_err() {
            return false;
        }
        self.use_memory(0);
        self.forget_handed();
        self.phase.store(Phase::Free as u32, Ordering::Release);
        true
    }

    /// Returns the slot's present generation.
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns true if the slot's present generation is `generation`. Compares only the lowest 24 bits.
    #[inline]
    pub fn is_generation(&self, generation: u32) -> bool {
        self.generation.load(Ordering::Acquire) & 0xff_ffff == generation & 0xff_ffff
    }

    /// Returns true if the slot's present generation is `generation`. Compares only the lowest 12 bits.
    pub(crate) fn is_generation_low(&self, generation: u32) -> bool {
        self.generation.load(Ordering::Acquire) & 0xfff == generation & 0xfff
    }
}
