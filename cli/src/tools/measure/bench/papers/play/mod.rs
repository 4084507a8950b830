//! Work of the two processes of a part.

mod buffers;
mod calls;
mod hosts;
mod loops;
mod memory;
mod oneway;
mod paced;
mod pingpong;
mod queues;
mod registering;
mod simulated;
mod spread;

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, bail};
use sovia_cli::library;
use sovia_nic::AnyNic;
use via::Nic;
use via_shm::ShmNic;

use super::control::{self, Control};
use super::station::{Room, Station};
use super::work::{End, Errand, Metric, Part, Reading, Way, Work};
use super::{clock, rounds};
use crate::measure::bench::cpus;
use crate::measure::bench::layer::Layer;
use crate::measure::bench::link::socket::Socket;
use crate::measure::bench::link::{Link, native, sovia, tcp, unix};
use crate::measure::bench::task::{Role, Scenario, Task, Wait};

/// Runs one process of a measurement, from its errand to its printed figures.
pub(in crate::measure::bench) fn endpoint(errand: &str) -> anyhow::Result<()> {
    let errand: Errand =
        serde_json::from_str(errand).context("cannot read the task of this benchmark process")?;
    let limit = rounds::limit(errand.part.points(), errand.part.seconds);
    // SAFETY: alarm has no preconditions. The default action of its signal ends this process.
    unsafe { libc::alarm(limit.as_secs() as u32) };
    if errand.part.way == Way::Native {
        // Loads the library before this end is bound to its processor, as under `sovia run`. Then the library assumes
        // that peers may run on other processors.
        drop(native::listen(&native::Library::open(&library::beside("libsovia.so")?)?)?);
    }
    if let Some(cpu) = errand.cpu {
        cpus::pin(cpu)?;
    }
    let mut readings = Vec::new();
    match &errand.place {
        Some(name) => {
            let control = Control::connect(name)?;
            Player::new(control, name, &errand, &mut readings).play()?;
        }
        None => {
            let (listener, name) = control::listen()?;
            say(&name)?;
            let control = Control::accept(&listener)?;
            Player::new(control, &name, &errand, &mut readings).play()?;
        }
    }
    say(&serde_json::to_string(&readings)?)
}

fn say(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// One process of a part.
struct Player<'a> {
    control: Control,
    /// Name of the responder's control socket, and of the NIC.
    name: &'a str,
    part: &'a Part,
    role: Role,
    /// Network namespace of a part between hosts.
    namespace: Option<&'a str>,
    to: &'a mut Vec<Reading>,
}

impl<'a> Player<'a> {
    fn new(
        control: Control,
        name: &'a str,
        errand: &'a Errand,
        to: &'a mut Vec<Reading>,
    ) -> Player<'a> {
        let (part, role, namespace) = (&errand.part, errand.role, errand.namespace.as_deref());
        Player { control, name, part, role, namespace, to }
    }
}

impl Player<'_> {
    fn play(mut self) -> anyhow::Result<()> {
        let part = self.part;
        if let Some(net) = part.net {
            return self.between_hosts(net);
        }
        match (part.way, &part.nic) {
            _ if matches!(part.work, Work::Simulated { .. }) => {
                if let Work::Simulated { law, sender, sizes, held } = &part.work {
                    self.simulated(*law, *sender, sizes, *held)?;
                }
            }
            (Way::Tcp | Way::Unix | Way::Run, _) => self.with_socket(Self::over)?,
            (Way::Native, _) => self.with_native(Self::over)?,
            (_, Some(places)) => self.on(AnyNic::open_at(places.of(self.role))?)?,
            (_, None) => self.on(self.shm()?)?,
        }
        // Waits, so that no end closes the connection while the other still uses it.
        self.control.meet()
    }

    /// Runs the part on a NIC.
    fn on<N: Nic + 'static>(&mut self, nic: N) -> anyhow::Result<()> {
        let part = self.part;
        match &part.work {
            _ if part.way == Way::Sovia => self.with_stream(nic),
            Work::Loops => self.loops(nic),
            Work::OneWay { sizes } => self.one_way(nic, sizes),
            Work::PingPong { sizes } => self.ping_pong(nic, sizes),
            Work::Strided { spread, strides } => self.strided(nic, *spread, strides),
            Work::Scatter { spread, blocks } => self.scatter(nic, *spread, blocks),
            Work::Queues { strategy, outstanding, size, vis } => {
                self.queues(nic, *strategy, *outstanding, *size, vis)
            }
            Work::Calls => self.calls(nic),
            Work::Memory { vis } => self.memory(nic, *vis),
            Work::Registering { prepared, sizes, held } => {
                self.registering(nic, *prepared, sizes, *held)
            }
            Work::Buffers { buffers, sizes } => self.buffers(nic, *buffers, sizes),
            Work::Layer { .. } => bail!("the processes of `sovia bench` play that"),
            Work::Paced { .. } => bail!("a pace is kept over sockets and streams"),
            Work::Simulated { .. } => bail!("that has NICs of its own"),
            Work::Stored => bail!("the figures of this work are stored"),
        }
    }

    /// Runs the part over a socket or a stream.
    fn over(&mut self, link: &mut dyn Link) -> anyhow::Result<()> {
        let part = self.part;
        match &part.work {
            Work::PingPong { sizes } => self.ping_pong_over(link, sizes),
            Work::OneWay { sizes } => self.one_way_over(link, sizes),
            Work::Paced { sizes, mbits } => self.paced_over(link, sizes, *mbits),
            Work::Buffers { buffers, sizes } => self.buffers_over(link, *buffers, sizes),
            _ => bail!("that takes a VI"),
        }
    }

    /// Opens a NIC in shared memory that waits as the part requires.
    fn shm(&self) -> anyhow::Result<ShmNic> {
        let nic = ShmNic::open(self.name)?;
        if self.part.wait == Wait::Sleep {
            nic.set_spin(Duration::ZERO);
        }
        Ok(nic)
    }

    fn is_requester(&self) -> bool {
        self.role == Role::Requester
    }

    fn station<N: Nic>(&mut self, nic: N, room: Room) -> anyhow::Result<Station<N>> {
        let how = (self.role, self.part.wait);
        let station = Station::new(&mut self.control, nic, how, room)?;
        Ok(station.with_looks(self.part.nic.is_some()))
    }

    fn reading(&mut self, metric: Metric, x: usize, value: f64) {
        let end = End::from(self.role);
        self.to.push(Reading { end, metric, x: x as u64, off: 0, value });
    }

    /// Runs rounds at both ends: requests at the requester, and serving at the responder. The requester gets the
    /// nanoseconds of a round.
    fn rounds(
        &mut self,
        request: impl FnMut() -> anyhow::Result<()>,
        serve: impl FnMut() -> anyhow::Result<()>,
    ) -> anyhow::Result<Option<f64>> {
        if self.is_requester() {
            rounds::lead(&mut self.control, self.part.seconds, request).map(Some)
        } else {
            rounds::follow(&mut self.control, serve).map(|()| None)
        }
    }

    /// Runs a number of rounds at both ends, without measuring.
    fn rounds_once(
        &mut self,
        rounds: usize,
        request: impl FnMut() -> anyhow::Result<()>,
        serve: impl FnMut() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if self.is_requester() {
            rounds::lead_once(&mut self.control, rounds as u64, request)
        } else {
            rounds::follow(&mut self.control, serve)
        }
    }

    /// Runs `play` over a kernel socket.
    fn with_socket(
        &mut self,
        play: impl FnOnce(&mut Self, &mut dyn Link) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let layer = match self.part.way {
            // Under `sovia run` the calls are the same as for TCP.
            Way::Tcp | Way::Run => Layer::Tcp,
            Way::Unix => Layer::Unix,
            other => bail!("{} is no socket", other.title()),
        };
        let scenario = if self.part.nagle { Scenario::Bandwidth } else { Scenario::Latency };
        let (wait, cpus, seconds) = (self.part.wait, self.part.cpus, self.part.seconds);
        let task = Task {
            scenario,
            layer,
            wait,
            cpus,
            size_bytes: 1,
            seconds,
            realtime: None,
            nic: None,
            peak: None,
        };
        let unix_name = format!("{}-link", self.name);
        match (layer, self.role) {
            (Layer::Tcp, Role::Responder) => {
                let (listener, port) = tcp::listen()?;
                self.control.tell(port.parse()?)?;
                let socket = tcp::accept(&listener, &task)?;
                play(self, &mut self.buffered(socket)?)
            }
            (Layer::Tcp, Role::Requester) => {
                let port = self.control.hear()?.to_string();
                let socket = tcp::connect(&port, &task)?;
                play(self, &mut self.buffered(socket)?)
            }
            (_, Role::Responder) => {
                let listener = unix::listen_at(&unix_name)?;
                self.control.tell(0)?;
                play(self, &mut unix::accept(&listener, &task)?)
            }
            (_, Role::Requester) => {
                self.control.hear()?;
                play(self, &mut unix::connect(&unix_name, &task)?)
            }
        }
    }

    /// Returns a socket with the buffers that the part requires.
    fn buffered(&self, socket: Socket) -> anyhow::Result<Socket> {
        if self.part.nagle { tcp::with_greatest_buffers(socket) } else { Ok(socket) }
    }

    /// Runs `play` over a socket of libsovia.
    fn with_native(
        &mut self,
        play: impl FnOnce(&mut Self, &mut dyn Link) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let library = native::Library::open(&library::beside("libsovia.so")?)?;
        let nodelay = !self.part.nagle;
        if self.is_requester() {
            let port = u16::try_from(self.control.hear()?).context("no port")?;
            let mut socket = native::connect(&library, port)?;
            socket.set_nodelay(nodelay)?;
            play(self, &mut socket)
        } else {
            let (listener, port) = native::listen(&library)?;
            self.control.tell(port.into())?;
            let mut socket = listener.accept()?;
            socket.set_nodelay(nodelay)?;
            play(self, &mut socket)
        }
    }

    /// Runs the part over a SOVIA stream.
    fn with_stream<N: Nic + 'static>(&mut self, nic: N) -> anyhow::Result<()> {
        let mut stream = self.stream_on(nic)?;
        self.over(&mut stream)
    }

    /// Connects a SOVIA stream to the other end's NIC.
    fn stream_on<N: Nic + 'static>(&mut self, nic: N) -> anyhow::Result<sovia::Sovia<N>> {
        let how = self.part.configuration.as_deref().context("a stream without configuration")?;
        let how = how.parse()?;
        if self.is_requester() {
            let host = self.control.hear_bytes()?;
            sovia::connect(nic, &host, &how)
        } else {
            let host = nic.attributes().local_address.clone();
            let listener = sovia::listen(nic, &how)?;
            self.control.tell_bytes(&host)?;
            listener.accept()
        }
    }
}
