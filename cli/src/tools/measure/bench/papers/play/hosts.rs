//! Parts between two hosts. Each end enters its own host. The ends communicate over TCP (on the Ethernet or on a lane),
//! over a native VI by NetPIPE's module, or over a SOVIA stream.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, bail};
use via::Nic;

use super::Player;
use crate::measure::bench::layer::Layer;
use crate::measure::bench::link::{Link, netpipe, tcp};
use crate::measure::bench::papers::lanes;
use crate::measure::bench::papers::net::{self, Net};
use crate::measure::bench::papers::work::{Way, Work};
use crate::measure::bench::task::{Role, Scenario, Task};

impl Player<'_> {
    /// Runs the part in this end's network namespace.
    pub(super) fn between_hosts(&mut self, net: Net) -> anyhow::Result<()> {
        net::enter(self.namespace.context("no network namespace")?)?;
        match self.part.way {
            way @ (Way::Tcp | Way::Lane) => {
                let address = if way == Way::Lane { lanes::lane_address } else { net::address };
                let mut socket = self.tcp_between_hosts(address(Role::Responder).into())?;
                self.over_to_the_end(&mut socket)
            }
            Way::SendRecv => {
                let mut module = self.module(net)?;
                self.over_to_the_end(&mut module)
            }
            Way::Sovia => {
                let mut stream = self.stream_between_hosts(net)?;
                self.over_to_the_end(&mut stream)
            }
            other => bail!(
                "cannot measure {} between hosts: only TCP, native VIs and SOVIA are measured there",
                other.title()
            ),
        }
    }

    fn over_to_the_end(&mut self, link: &mut dyn Link) -> anyhow::Result<()> {
        self.over(link)?;
        // Closing the link comes after this, so that no end misses the other's last bytes.
        self.control.meet()
    }

    fn tcp_between_hosts(&mut self, server: IpAddr) -> anyhow::Result<impl Link + use<>> {
        let task = Task {
            // NetPIPE uses TCP_NODELAY, which this scenario sets.
            scenario: Scenario::Latency,
            layer: Layer::Tcp,
            wait: self.part.wait,
            cpus: self.part.cpus,
            size_bytes: 1,
            seconds: self.part.seconds,
            realtime: None,
            nic: None,
            peak: None,
        };
        if self.is_requester() {
            let port = u16::try_from(self.control.hear()?).context("no port")?;
            tcp::connect_to(SocketAddr::new(server, port), &task)
        } else {
            let (listener, at) = tcp::listen_at(server)?;
            self.control.tell(at.port().into())?;
            tcp::accept(&listener, &task)
        }
    }

    fn module(&mut self, net: Net) -> anyhow::Result<impl Link + use<>> {
        let nic = net::open(net.port.context("no port")?, self.role, self.part.wait)?;
        let host = nic.attributes().local_address.clone();
        let module = netpipe::Module::new(nic, self.part.wait, self.longest())?;
        if self.is_requester() {
            module.connect(&self.control.hear_bytes()?)
        } else {
            self.control.tell_bytes(&host)?;
            module.accept()
        }
    }

    fn stream_between_hosts(&mut self, net: Net) -> anyhow::Result<impl Link + use<>> {
        let nic = net::open(net.port.context("no port")?, self.role, self.part.wait)?;
        self.stream_on(nic)
    }

    /// Returns the length of the part's longest message.
    fn longest(&self) -> usize {
        match &self.part.work {
            Work::PingPong { sizes } => sizes.iter().map(|size| size.size()).max().unwrap_or(1),
            Work::OneWay { sizes } => sizes.iter().copied().max().unwrap_or(1),
            _ => 1,
        }
    }
}
