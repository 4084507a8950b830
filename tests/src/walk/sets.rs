//! Epoll instances of an end.

use super::calls::{must, names, said};

/// Epoll instances. Each entry has a number, which its events show.
#[derive(Default)]
pub(super) struct Sets {
    instances: [Option<i32>; Sets::COUNT],
    entries: u64,
}

impl Sets {
    /// Greatest number of instances.
    pub(super) const COUNT: usize = 2;

    /// Returns the instance with this number; the first use makes it.
    pub(super) fn instance(&mut self, set: usize) -> i32 {
        *self.instances[set].get_or_insert_with(|| {
            // SAFETY: a call that takes a number.
            must("epoll_create1", unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })
        })
    }

    /// Makes the call `add`, `modify` or `delete`, with words that [`mask`] understands.
    pub(super) fn control(
        &mut self,
        call: &str,
        set: usize,
        stream: i32,
        words: &[&str],
    ) -> String {
        let call = match call {
            "add" => libc::EPOLL_CTL_ADD,
            "modify" => libc::EPOLL_CTL_MOD,
            _ => libc::EPOLL_CTL_DEL,
        };
        self.entries += 1;
        let mut event = libc::epoll_event { events: mask(words), u64: self.entries };
        // SAFETY: the event is one.
        said(unsafe { libc::epoll_ctl(self.instance(set), call, stream, &mut event) } as isize)
    }

    /// Prints the present events of an instance, in their order.
    pub(super) fn events(&mut self, set: usize, room: usize) -> String {
        match self.instances[set] {
            Some(instance) => wait(instance, room, 0),
            None => "no set".into(),
        }
    }

    /// Closes an instance.
    pub(super) fn close(&mut self, set: usize) -> String {
        // SAFETY: a call that takes a number.
        said(unsafe { libc::close(self.instances[set].take().unwrap_or(-1)) } as isize)
    }
}

/// Waits for at most `milliseconds`, without a limit for -1.
pub(super) fn wait(instance: i32, room: usize, milliseconds: i32) -> String {
    let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; room];
    // SAFETY: `events` has room for `room` events.
    let found =
        unsafe { libc::epoll_wait(instance, events.as_mut_ptr(), room as i32, milliseconds) };
    match found {
        0 => "none".into(),
        1.. => {
            let show = |event: &libc::epoll_event| {
                let (entry, mask) = (event.u64, event.events);
                format!("{entry}: {}", names(mask as libc::c_short))
            };
            events[..found as usize].iter().map(show).collect::<Vec<_>>().join(", ")
        }
        _ => said(-1),
    }
}

/// Returns the bits for the words `level`, `edge`, `once`, `exclusive`, `in`, `out`, `both` and `end`.
fn mask(words: &[&str]) -> u32 {
    let bits = |word: &&str| match *word {
        "edge" => libc::EPOLLET,
        "once" => libc::EPOLLONESHOT,
        "exclusive" => libc::EPOLLEXCLUSIVE,
        "in" => libc::EPOLLIN,
        "out" => libc::EPOLLOUT,
        "both" => libc::EPOLLIN | libc::EPOLLOUT,
        "end" => libc::EPOLLRDHUP,
        _ => 0,
    };
    words.iter().map(bits).fold(0, |all, bits| all | bits as u32)
}
