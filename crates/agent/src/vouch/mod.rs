//! The agent of a host that confirms to two programs that they hold the two ends of one connection. Such programs
//! cannot find out themselves. They are in different network namespaces, or a sandbox forbids them to ask the kernel.
//!
//! - `queries`: the queries of programs.
//! - `helper`: the privileged helper, which asks the kernel which program holds an end (`crate::numbers` gives the
//!   proof).
//! - This module: the front end, a process without privileges that serves programs.
//!
//! The two processes share only a socket. Each ends when the other one has ended. What two programs share after they
//! have met does not need the agent. So the agent can be restarted at any time. Programs then repeat their open
//! queries.

mod helper;
mod queries;

use helper::{Helper, Verdict};
use queries::{Client, Place, Queries, Query};
use sovia_proto::agent::{AGENT_MESSAGE, AgentMessage, What};
use sovia_proto::rendezvous::Link;
use sovia_sys::arrivals::Arrivals;
use sovia_sys::seqpacket::{Listener, Packets};
use sovia_sys::{Errno, Fd, call, credentials, datagram, poll};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Maximum number of messages or connections taken in one turn.
const TURN: usize = 16;
/// Maximum number of programs of one user.
const OF_ONE_USER: usize = 1024;
/// Bytes unread by a program, beyond which the front end sends it nothing more. The kernel counts a message as less
/// than a tenth of it. Each message also carries a descriptor, and the kernel limits the agent's descriptors in
/// flight.
const UNREAD: usize = 16 << 10;

/// Reason why the agent cannot vouch.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel does not let the agent read sequence numbers.
    #[error(
        "cannot read the sequence numbers that prove that two sockets are the ends of one connection: {}. \
         The agent needs CAP_NET_ADMIN and CAP_SYS_ADMIN, AF_NETLINK, setns and bpf, and Linux 5.8 or later", sovia_sys::described(*.0))]
    Privilege(Errno),
    /// Programs cannot find the agent.
    #[error("cannot accept programs at {}: {}", .0.display(), .1)]
    Path(PathBuf, std::io::Error),
    /// Another agent listens there.
    #[error("cannot listen at {}: an agent listens there already", .0.display())]
    There(PathBuf),
    /// The process that serves programs cannot be started.
    #[error("cannot start the process that serves programs: {0}")]
    Start(std::io::Error),
    /// The kernel refuses a call that every program needs.
    #[error("cannot wait for events: {}", sovia_sys::described(*.0))]
    Kernel(Errno),
    /// The other process has ended.
    #[error("the agent's other process has ended")]
    Parted,
}

/// The privileged helper, which starts the front end.
#[derive(Debug)]
pub struct Voucher {
    helper: Helper,
    front_end: Packets,
    child: Child,
}

impl Voucher {
    /// Listens at `path` and starts the front end. `front_end` is a command that calls [`speak`] as a user without
    /// privileges.
    ///
    /// # Errors
    /// [`Error`]: the reason why the agent cannot vouch.
    pub fn open(path: &Path, mut front_end: Command) -> Result<Voucher, Error> {
        let listener = listen(path)?;
        let (own, its) = Packets::pair().map_err(Error::Kernel)?;
        front_end
            .stdin(Stdio::from(OwnedFd::from(listener)))
            .stdout(Stdio::from(OwnedFd::from(Fd::from(its))));
        let helper = Helper::new().map_err(Error::Privilege)?;
        let child = front_end.spawn().map_err(Error::Start)?;
        helper.restrict(&own).map_err(Error::Privilege)?;
        Ok(Voucher { helper, front_end: own, child })
    }

    /// Serves until the front end has ended.
    pub fn serve(mut self) -> Error {
        let error = self.helper.serve(&self.front_end);
        let _ = self.child.wait();
        if error == Errno::ECONNRESET { Error::Parted } else { Error::Kernel(error) }
    }
}

/// Listens at a path. Replaces the file of an agent that has ended.
pub(crate) fn listen(path: &Path) -> Result<Fd, Error> {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    let failed = |error: std::io::Error| Error::Path(path.into(), error);
    let refused = |error: Errno| failed(std::io::Error::from_raw_os_error(error.into_raw()));
    if let Some(folder) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o755).create(folder).map_err(failed)?;
    }
    let bytes = path.as_os_str().as_bytes();
    match Packets::connect_file(bytes) {
        Err(Errno::ENOENT) => {}
        Err(Errno::ECONNREFUSED) => std::fs::remove_file(path).map_err(failed)?,
        Ok(_) | Err(Errno::EAGAIN) => return Err(Error::There(path.into())),
        Err(error) => return Err(refused(error)),
    }
    let listener = Listener::bind_file(bytes).map_err(refused)?;
    // Any process that can reach the folder may connect.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).map_err(failed)?;
    Ok(listener.into())
}

/// Runs the front end. The listener is its standard input, and the socket to the helper is its standard output.
/// Returns the reason for its end.
pub fn speak() -> Error {
    // Other processes of the same user must not trace the front end. No program that it executes gets more
    // privileges.
    let _ = credentials::prctl(libc::PR_SET_DUMPABLE, 0);
    let _ = credentials::prctl(libc::PR_SET_NO_NEW_PRIVS, 1);
    call::raise_descriptor_limit();
    let (listener, helper) = (Listener::of(Fd::adopt(0)), Packets::of(Fd::adopt(1)));
    match FrontEnd::new(listener, helper).and_then(|mut front_end| front_end.serve()) {
        Err(Errno::ECONNRESET) => Error::Parted,
        Err(error) => Error::Kernel(error),
        Ok(never) => match never {},
    }
}

/// A connected program.
#[derive(Debug)]
struct Program {
    packets: Packets,
    user: u32,
    place: Place,
}

#[derive(Debug)]
struct FrontEnd {
    listener: Listener,
    arrivals: Arrivals,
    helper: Packets,
    epoll: Fd,
    programs: HashMap<Client, Program>,
    queries: Queries,
    next: Client,
}

/// Tokens of the epoll instance. Programs have tokens from [`FIRST`] on.
const LISTENER: u64 = 0;
const HELPER: u64 = 1;
const FIRST: u64 = 2;

impl FrontEnd {
    fn new(listener: Listener, helper: Packets) -> sovia_sys::Result<FrontEnd> {
        let epoll = Fd::make(poll::epoll_create)?;
        let edges = libc::EPOLLIN | libc::EPOLLET;
        for (fd, events, token) in
            [(listener.raw(), edges, LISTENER), (helper.raw(), libc::EPOLLIN, HELPER)]
        {
            poll::epoll_ctl(epoll.raw(), libc::EPOLL_CTL_ADD, fd, events as u32, token)?;
        }
        let (arrivals, programs, queries) = Default::default();
        Ok(FrontEnd { listener, arrivals, helper, epoll, programs, queries, next: FIRST })
    }

    fn serve(&mut self) -> sovia_sys::Result<core::convert::Infallible> {
        loop {
            let mut events = [libc::epoll_event { events: 0, u64: 0 }; 32];
            let pause = self.arrivals.pause();
            let n = match poll::epoll_wait(self.epoll.raw(), &mut events, pause, None) {
                Ok(n) => n,
                Err(Errno::EINTR) => 0,
                Err(error) => return Err(error),
            };
            if self.arrivals.pause() == Some(0) {
                self.accept()?;
            }
            for event in &events[..n] {
                match event.u64 {
                    LISTENER => self.accept()?,
                    // The helper sends nothing unasked, so this is the end of its socket.
                    HELPER => return Err(Errno::ECONNRESET),
                    client => self.hear(client)?,
                }
            }
        }
    }

    fn accept(&mut self) -> sovia_sys::Result<()> {
        let come = self.arrivals.take(TURN, || self.listener.accept());
        // Only this process's own limit is a reason to drop a program. For the host's limit, another process may be
        // responsible.
        if self.arrivals.lacked() == Some(Errno::EMFILE) {
            self.make_room();
        }
        come.into_iter().try_for_each(|packets| self.take_in(packets))
    }

    fn take_in(&mut self, packets: Packets) -> sovia_sys::Result<()> {
        let Ok((_, user)) = packets.peer() else { return Ok(()) };
        if self.programs.values().filter(|program| program.user == user).count() >= OF_ONE_USER {
            return Ok(());
        }
        // The program may connect again.
        let Some(place) = helper::place_of(&self.helper, &packets)? else { return Ok(()) };
        let client = self.next;
        self.next += 1;
        let (epoll, events) = (self.epoll.raw(), libc::EPOLLIN as u32);
        if poll::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, packets.raw(), events, client).is_ok() {
            self.programs.insert(client, Program { packets, user, place });
        }
        Ok(())
    }

    /// Frees a descriptor: drops a program of the user with the most programs. The program may connect again.
    fn make_room(&mut self) {
        let mut of_user = HashMap::<u32, usize>::new();
        for program in self.programs.values() {
            *of_user.entry(program.user).or_default() += 1;
        }
        let most = of_user.into_iter().max_by_key(|(_, n)| *n).map(|(user, _)| user);
        let client = self.programs.iter().find(|(_, it)| Some(it.user) == most).map(|(id, _)| *id);
        if let Some(client) = client {
            self.drop_program(client);
        }
    }

    fn drop_program(&mut self, client: Client) {
        self.programs.remove(&client);
        self.queries.remove_all_of(client);
    }

    fn hear(&mut self, client: Client) -> sovia_sys::Result<()> {
        for _ in 0..TURN {
            let Some(program) = self.programs.get(&client) else { return Ok(()) };
            let mut buffer = [0; AGENT_MESSAGE + 1];
            let message = match program.packets.receive(&mut buffer) {
                Ok(received) if received.len == AGENT_MESSAGE => {
                    AgentMessage::decode(&buffer[..AGENT_MESSAGE])
                }
                Err(Errno::EAGAIN) => return Ok(()),
                // The program has disconnected or sent an invalid message.
                _ => None,
            };
            let id = message.map_or((client, 0), |message| (client, message.id));
            match message.map(|message| message.what) {
                Some(What::Forget) => self.queries.remove(id),
                Some(What::Query(link))
                    if let Some((link, is_connector)) = Link::with_role(&link) =>
                {
                    let (user, place) = (program.user, program.place);
                    let query = Query { link, is_connector, user, place };
                    if self.queries.add(id, query) {
                        self.look_for(id, query)?;
                    }
                }
                _ => {
                    self.drop_program(client);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Checks if another program has the other end.
    fn look_for(&mut self, id: queries::Id, query: Query) -> sovia_sys::Result<()> {
        for (other_id, other) in self.queries.candidates(id) {
            let program = |id: queries::Id| self.programs.get(&id.0).map(|it| &it.packets);
            let (Some(one), Some(another)) = (program(id), program(other_id)) else { continue };
            match helper::ask(&self.helper, (one, &query), (another, &other))? {
                None => return Ok(()),
                Some(Verdict::One) => {
                    self.introduce(id, other_id);
                    return Ok(());
                }
                Some(Verdict::Different) => {}
                Some(Verdict::FirstHasNone) => {
                    self.queries.remove(id);
                    return Ok(());
                }
                Some(Verdict::SecondHasNone) => self.queries.remove(other_id),
            }
        }
        Ok(())
    }

    /// Gives each of the two programs one end of a new socket pair.
    fn introduce(&mut self, one: queries::Id, other: queries::Id) {
        // Without descriptors for the pair, both queries stay open.
        let Ok([a, b]) = datagram::pair() else { return };
        for (id, end) in [(one, a), (other, b)] {
            self.queries.remove(id);
            let message = AgentMessage { id: id.1, what: What::Found };
            let Some(program) = self.programs.get(&id.0) else { continue };
            let takes = program.packets.unread().is_ok_and(|unread| unread <= UNREAD);
            if !takes || program.packets.send(&message.encode(), &[end.raw()]).is_err() {
                // The program does not read its messages, or its socket fails. The program may connect again.
                self.drop_program(id.0);
            }
        }
    }
}
