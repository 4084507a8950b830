//! Memory is deregistered while the NIC uses it. After the call the NIC does not access the memory.
#![cfg(not(loom))]

use core::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use via::{DataSegment, MemAttributes, Memory, Nic, Reliability, Status, Vi, ViAttributes};
use via_conformance::{Context, End};
use via_shm::ShmNic;

const LEN: usize = 64 << 10;

/// Pages that the test unmaps, so that a late access crashes.
struct Pages(NonNull<u8>);

impl Pages {
    fn new() -> Pages {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        // SAFETY: a new mapping at an address that the kernel chooses changes no existing mapping.
        let base = unsafe { libc::mmap(core::ptr::null_mut(), LEN, protection, flags, -1, 0) };
        assert_ne!(base, libc::MAP_FAILED);
        Pages(NonNull::new(base.cast()).unwrap())
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and the memory has been deregistered.
        unsafe { libc::munmap(self.0.as_ptr().cast(), LEN) };
    }
}

#[test]
fn deregistered_memory_is_touched_no_more() {
    const ROUNDS: usize = 100;
    let nic = ShmNic::open(&format!("memory-{}", std::process::id())).unwrap();
    for round in 0..ROUNDS {
        let discriminator = format!("round {round}");
        let cx = Context { nic: &nic, server: nic.address(discriminator.as_bytes()) };
        // With unreliable delivery, a message without a posted receive does not break the connection.
        let attributes = ViAttributes {
            reliability: Reliability::UNRELIABLE,
            max_transfer_size: LEN as u32,
            ..Default::default()
        };
        let (sender, receiver) = (End::with(&cx, LEN, attributes), End::with(&cx, LEN, attributes));
        for i in 0..200 {
            receiver.post_recv(i, 0, LEN);
        }
        thread::scope(|s| {
            s.spawn(|| receiver.accept(&cx));
            sender.request(&cx).unwrap();
        });

        let pages = Pages::new();
        // SAFETY: the pages stay mapped until after `deregister_mem`, as `from_raw` requires.
        let memory = unsafe { Memory::from_raw(pages.0, LEN) };
        let handle = nic.register_mem(&memory, MemAttributes::default()).unwrap();
        let whole =
            DataSegment { address: memory.address(0), handle: handle.raw(), length: LEN as u32 };
        let going = AtomicBool::new(false);
        thread::scope(|s| {
            let sending = s.spawn(|| {
                // Send until a send fails because of the deregistered memory. Nothing else ends the loop.
                for i in 0.. {
                    let at = sender.descriptor(i % 100, &[whole], None);
                    sender.vi.post_send(at).expect("the connection stays");
                    going.store(true, Ordering::SeqCst);
                    let done = sender.vi.send_wait(Some(Duration::from_secs(5))).unwrap();
                    if let Err(status) = done.result() {
                        return status;
                    }
                }
                unreachable!("there are always more numbers")
            });
            s.spawn(|| {
                while let Ok(done) = receiver.vi.recv_wait(Some(Duration::from_secs(5))) {
                    if done.result().is_err() {
                        return;
                    }
                    let _ = receiver.vi.post_recv(done.descriptor);
                }
            });
            while !going.load(Ordering::SeqCst) {
                core::hint::spin_loop();
            }
            thread::sleep(Duration::from_micros(round as u64 * 3));
            nic.deregister_mem(handle).unwrap();
            drop(pages);
            let status = sending.join().unwrap();
            assert!(status.contains(Status::PROTECTION_ERROR), "{status:?}");
            sender.vi.disconnect();
        });
    }
}
