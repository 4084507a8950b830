//! A TCP socket's keep-alive, and one question of it on demand.

use super::{RawFd, Result, getsockopt, setsockopt};

/// Longest idle time and interval, and most questions, that the kernel takes (`MAX_TCP_KEEPIDLE`, `MAX_TCP_KEEPINTVL`,
/// `MAX_TCP_KEEPCNT`).
const SECONDS_MAX: u32 = 32767;
const COUNT_MAX: u32 = 127;

/// What a socket's options say of keep-alive, and of how long it bears silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// SO_KEEPALIVE.
    pub on: bool,
    /// TCP_KEEPIDLE (seconds, up to 32767).
    pub idle: u32,
    /// TCP_KEEPINTVL (seconds, up to 32767).
    pub interval: u32,
    /// TCP_KEEPCNT (up to 127).
    pub count: u32,
    /// TCP_USER_TIMEOUT (milliseconds).
    pub user_timeout: u32,
}

/// For how long a TCP socket has received nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silence {
    /// Milliseconds, also of acknowledgements without bytes.
    pub milliseconds: u32,
    /// Questions whether the other host is there that have not been answered.
    pub unanswered: u32,
}

impl Silence {
    /// That of a connection that is open in both directions, and has nothing on its way.
    pub fn of(fd: RawFd) -> Option<Silence> {
        const ESTABLISHED: u8 = 1;
        // Words of struct tcp_info: the state is its first byte and `tcpi_probes` its fourth; at byte 24 `tcpi_unacked`, at 52 and 56
        // `tcpi_last_data_recv` and `tcpi_last_ack_recv`.
        let info = getsockopt::<[u32; 15]>(fd, libc::IPPROTO_TCP, libc::TCP_INFO).ok()?;
        let [state, _, _, unanswered] = info[0].to_ne_bytes();
        (state == ESTABLISHED && info[6] == 0).then_some(Silence {
            milliseconds: info[13].min(info[14]),
            unanswered: unanswered.into(),
        })
    }
}

impl Keepalive {
    /// That of a socket.
    ///
    /// # Errors
    /// As of getsockopt.
    pub fn of(fd: RawFd) -> Result<Keepalive> {
        let tcp = |name| getsockopt::<u32>(fd, libc::IPPROTO_TCP, name);
        Ok(Keepalive {
            on: getsockopt::<i32>(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE)? != 0,
            idle: tcp(libc::TCP_KEEPIDLE)?,
            interval: tcp(libc::TCP_KEEPINTVL)?,
            count: tcp(libc::TCP_KEEPCNT)?,
            user_timeout: tcp(libc::TCP_USER_TIMEOUT)?,
        })
    }

    /// Has the kernel ask once whether the other host is there, on a socket that has been silent for more than a second. Its options
    /// are others from here on, by which it asks again only after nine hours, and breaks nothing before it has asked 127 times:
    /// until they are put back ([`Keepalive::put_back`]).
    ///
    /// # Errors
    /// As of setsockopt.
    pub fn ask_once(fd: RawFd) -> Result<()> {
        Keepalive {
            on: true,
            idle: SECONDS_MAX,
            interval: SECONDS_MAX,
            count: COUNT_MAX,
            user_timeout: 0,
        }
        .put_back(fd)?;
        // Last: the kernel looks now whether it has been idle for so long.
        setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, &1u32)
    }

    /// Gives a socket these options.
    ///
    /// # Errors
    /// As of setsockopt.
    pub fn put_back(&self, fd: RawFd) -> Result<()> {
        let tcp = |name, value: u32| setsockopt(fd, libc::IPPROTO_TCP, name, &value);
        let on = || setsockopt(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, &i32::from(self.on));
        // What asks less is changed first, so that the kernel never asks, nor breaks, by a mixture of both.
        if !self.on {
            on()?;
        }
        tcp(libc::TCP_KEEPIDLE, self.idle)?;
        tcp(libc::TCP_KEEPINTVL, self.interval)?;
        tcp(libc::TCP_KEEPCNT, self.count)?;
        tcp(libc::TCP_USER_TIMEOUT, self.user_timeout)?;
        on()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::time::{Duration, Instant};

    #[test]
    fn other_host_is_asked_once_and_the_options_are_put_back() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connector = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _acceptor = listener.accept().unwrap();
        let fd = connector.as_raw_fd();
        let own = Keepalive { on: true, idle: 7000, interval: 80, count: 5, user_timeout: 90_000 };
        own.put_back(fd).unwrap();
        assert_eq!(Keepalive::of(fd), Ok(own));
        let watchdog = Instant::now() + Duration::from_secs(60);
        let silence = || {
            assert!(Instant::now() < watchdog);
            std::thread::sleep(Duration::from_millis(10));
            Silence::of(fd).unwrap().milliseconds
        };
        while silence() < 1500 {}
        Keepalive::ask_once(fd).unwrap();
        // The answer ends the silence.
        while silence() > 1400 {}
        own.put_back(fd).unwrap();
        assert_eq!(Keepalive::of(fd), Ok(own));
        assert_eq!(Silence::of(fd).unwrap().unanswered, 0);
    }

    #[test]
    fn closed_socket_has_no_silence() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(Silence::of(listener.as_raw_fd()), None);
    }
}
