//! Keep-alive options of a TCP socket, and a single probe on demand.

use super::{RawFd, Result, getsockopt, setsockopt};

/// Largest idle time and interval in seconds, and largest number of probes, that the kernel accepts
/// (`MAX_TCP_KEEPIDLE`, `MAX_TCP_KEEPINTVL`, `MAX_TCP_KEEPCNT`).
const SECONDS_MAX: u32 = 32767;
const COUNT_MAX: u32 = 127;

/// A socket's options for keep-alive, and for the time it waits for an answer.
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

/// Time and probes since a TCP socket has last received something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silence {
    /// Milliseconds since the last segment, counting acknowledgements without bytes.
    pub milliseconds: u32,
    /// Number of keep-alive probes without an answer.
    pub unanswered: u32,
}

impl Silence {
    /// Returns the silence of a connection that is open in both directions and has no unacknowledged bytes;
    /// `None` otherwise.
    pub fn of(fd: RawFd) -> Option<Silence> {
        const ESTABLISHED: u8 = 1;
        // Words of struct tcp_info. The state is byte 0, `tcpi_probes` is byte 3. `tcpi_unacked` is at byte 24,
        // `tcpi_last_data_recv` at 52 and `tcpi_last_ack_recv` at 56.
        let info = getsockopt::<[u32; 15]>(fd, libc::IPPROTO_TCP, libc::TCP_INFO).ok()?;
        let [state, _, _, unanswered] = info[0].to_ne_bytes();
        (state == ESTABLISHED && info[6] == 0).then_some(Silence {
            milliseconds: info[13].min(info[14]),
            unanswered: unanswered.into(),
        })
    }
}

impl Keepalive {
    /// Returns the keep-alive options of a socket.
    ///
    /// # Errors
    /// Those of getsockopt.
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

    /// Makes the kernel send one probe to the other host, on a socket that has been silent for more than a
    /// second. Replaces the socket's options: the kernel probes again only after nine hours, and needs 127 lost
    /// probes to end the connection. The caller must restore the options ([`Keepalive::put_back`]).
    ///
    /// # Errors
    /// Those of setsockopt.
    pub fn ask_once(fd: RawFd) -> Result<()> {
        Keepalive {
            on: true,
            idle: SECONDS_MAX,
            interval: SECONDS_MAX,
            count: COUNT_MAX,
            user_timeout: 0,
        }
        .put_back(fd)?;
        // Set this last: the kernel now compares the idle time with this value.
        setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, &1u32)
    }

    /// Sets the options of a socket to these values.
    ///
    /// # Errors
    /// Those of setsockopt.
    pub fn put_back(&self, fd: RawFd) -> Result<()> {
        let tcp = |name, value: u32| setsockopt(fd, libc::IPPROTO_TCP, name, &value);
        let on = || setsockopt(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, &i32::from(self.on));
        // Switch keep-alive off first and on last. So the kernel never probes or ends the connection by a mixture
        // of old and new options.
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
        // The answer to the probe ends the silence.
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
