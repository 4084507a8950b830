//! Children made by `fork` cannot use their parent's NICs, and keep no address of the parent in use.
#![cfg(not(loom))]

use std::thread;
use via::error::ConnectError;
use via::{Connection, Nic, Vi};
use via_conformance::SOON;
use via_shm::ShmNic;

/// A child that only pauses until it is killed.
struct Child(i32);

impl Child {
    fn fork() -> Child {
        // SAFETY: the child makes only system calls.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "{}", std::io::Error::last_os_error());
        if pid == 0 {
            loop {
                // SAFETY: the call takes no arguments.
                unsafe { libc::pause() };
            }
        }
        Child(pid)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: the process is a child that has not been waited for, so the process id is the child's. A null status
        // is allowed.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

#[test]
fn an_address_is_waited_at_again_although_children_were_forked_meanwhile() {
    let nic = ShmNic::open(&format!("forked-{}", std::process::id())).unwrap();
    let address = nic.address(b"place");
    let mut children = Vec::new();
    for _ in 0..30 {
        let [ours, theirs] = [(); 2].map(|()| nic.create_vi(Default::default()).unwrap());
        thread::scope(|s| {
            let server = s.spawn(|| nic.connect_wait(&address, SOON).unwrap().accept(&ours));
            children.push(Child::fork());
            while let Err(error) = theirs.connect_request(&address, &address, SOON) {
                assert_eq!(error, ConnectError::NoMatch);
                thread::yield_now();
            }
            server.join().unwrap().unwrap();
        });
    }
}
