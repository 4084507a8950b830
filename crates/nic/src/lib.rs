//! A NIC of any provider.
//!
//! [`AnyNic`], [`AnyVi`], [`AnyCq`] and [`AnyConnection`] are enums with a variant for each provider. These enums
//! implement the traits of [`via`], so code written for the traits works with any provider. Each provider is a
//! feature of this crate.

#![forbid(unsafe_code)]

use core::time::Duration;
use via::cq::{CqCallback, CqEntry, CqSignal, Watch};
use via::error::{
    Cause, ConnectError, CqError, CreateViError, MemError, NotAccepted, PostError, PtagError,
    RegisterError, SetViError, WaitError,
};
use via::event::{ErrorHandler, ViCallback};
use via::state::IllegalTransition;
use via::{
    AsyncError, Attach, Bequest, Completion, CompletionQueue, Connection, DescriptorAddress, Done,
    MemAttributes, MemHandle, Memory, NetAddress, Nic, NicAttributes, Ptag, Vi, ViAttributes,
    ViState,
};
#[cfg(feature = "eth")]
use via_eth::EthNic;
#[cfg(feature = "ofi")]
use via_ofi::OfiNic;
#[cfg(feature = "shm")]
use via_shm::ShmNic;
#[cfg(feature = "sim")]
use via_sim::SimNic;
#[cfg(feature = "verbs")]
use via_verbs::VerbsNic;

/// Reason why a NIC could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// This build has no such provider.
    #[error("{0}: no such provider; this build has: {there}", there = providers())]
    Provider(String),
    /// The name is invalid for the provider.
    #[error("{0}")]
    Name(String),
    /// A system call failed, or a resource is missing.
    #[error("{0}")]
    System(String),
}

/// Name of each provider that [`AnyNic::open`] accepts, and true if this build has it.
const PROVIDERS: &[(bool, &str)] = &[
    (cfg!(feature = "shm"), "shm"),
    (cfg!(feature = "eth"), "eth"),
    (cfg!(feature = "ofi"), "ofi"),
    (cfg!(feature = "verbs"), "verbs"),
];

/// Returns the names of this build's providers, or "none".
fn providers() -> String {
    let there: Vec<&str> =
        PROVIDERS.iter().filter(|(is_there, _)| *is_there).map(|(_, name)| *name).collect();
    if there.is_empty() { "none".to_owned() } else { there.join(", ") }
}

/// A NIC of any provider.
///
/// ```
/// use sovia_nic::AnyNic;
/// use via::{Nic, Vi, ViAttributes, ViState};
///
/// let provider = std::env::var("PROVIDER").unwrap_or_else(|_| "shm".to_owned());
/// let nic = AnyNic::open(&provider, "example")?;
/// let vi = nic.create_vi(ViAttributes::default())?;
/// assert_eq!(vi.state(), ViState::Idle);
/// println!("{} has {} VIs", nic.attributes().name, nic.attributes().max_vi);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub enum AnyNic {
    /// In shared memory.
    #[cfg(feature = "shm")]
    Shm(ShmNic),
    /// Over UDP or Ethernet.
    #[cfg(feature = "eth")]
    Eth(EthNic),
    /// On libfabric.
    #[cfg(feature = "ofi")]
    Ofi(OfiNic),
    /// On a simulated network.
    #[cfg(feature = "sim")]
    Sim(SimNic),
    /// On an RDMA NIC.
    #[cfg(feature = "verbs")]
    Verbs(VerbsNic),
}

/// A VI of any provider.
#[derive(Debug)]
pub enum AnyVi {
    /// In shared memory.
    #[cfg(feature = "shm")]
    Shm(<ShmNic as Nic>::Vi),
    /// Over UDP or Ethernet.
    #[cfg(feature = "eth")]
    Eth(<EthNic as Nic>::Vi),
    /// On libfabric.
    #[cfg(feature = "ofi")]
    Ofi(<OfiNic as Nic>::Vi),
    /// On a simulated network.
    #[cfg(feature = "sim")]
    Sim(<SimNic as Nic>::Vi),
    /// On an RDMA NIC.
    #[cfg(feature = "verbs")]
    Verbs(<VerbsNic as Nic>::Vi),
}

/// A completion queue of any provider.
#[derive(Debug)]
pub enum AnyCq {
    /// In shared memory.
    #[cfg(feature = "shm")]
    Shm(<ShmNic as Nic>::Cq),
    /// Over UDP or Ethernet.
    #[cfg(feature = "eth")]
    Eth(<EthNic as Nic>::Cq),
    /// On libfabric.
    #[cfg(feature = "ofi")]
    Ofi(<OfiNic as Nic>::Cq),
    /// On a simulated network.
    #[cfg(feature = "sim")]
    Sim(<SimNic as Nic>::Cq),
    /// On an RDMA NIC.
    #[cfg(feature = "verbs")]
    Verbs(<VerbsNic as Nic>::Cq),
}

/// A connection request of any provider.
#[derive(Debug)]
pub enum AnyConnection {
    /// In shared memory.
    #[cfg(feature = "shm")]
    Shm(<ShmNic as Nic>::Connection),
    /// Over UDP or Ethernet.
    #[cfg(feature = "eth")]
    Eth(<EthNic as Nic>::Connection),
    /// On libfabric.
    #[cfg(feature = "ofi")]
    Ofi(<OfiNic as Nic>::Connection),
    /// On a simulated network.
    #[cfg(feature = "sim")]
    Sim(<SimNic as Nic>::Connection),
    /// On an RDMA NIC.
    #[cfg(feature = "verbs")]
    Verbs(<VerbsNic as Nic>::Connection),
}

/// Evaluates `$body` for the variant of `$any`, with `$own` bound to the provider's object.
///
/// In `$body`, `$make!(AnyVi)` is the same provider's variant of another enum. `$make!(AnyVi, vi)` is a pattern for
/// it.
macro_rules! own {
    ($any:expr, $enum:ident, |$own:ident, $make:ident| $body:expr) => {
        match $any {
            #[cfg(feature = "shm")]
            $enum::Shm($own) => {
                #[allow(unused_macros)]
                macro_rules! $make {
                    ($kind:ident) => {
                        $kind::Shm
                    };
                    ($kind:ident, $it:pat) => {
                        $kind::Shm($it)
                    };
                }
                $body
            }
            #[cfg(feature = "eth")]
            $enum::Eth($own) => {
                #[allow(unused_macros)]
                macro_rules! $make {
                    ($kind:ident) => {
                        $kind::Eth
                    };
                    ($kind:ident, $it:pat) => {
                        $kind::Eth($it)
                    };
                }
                $body
            }
            #[cfg(feature = "ofi")]
            $enum::Ofi($own) => {
                #[allow(unused_macros)]
                macro_rules! $make {
                    ($kind:ident) => {
                        $kind::Ofi
                    };
                    ($kind:ident, $it:pat) => {
                        $kind::Ofi($it)
                    };
                }
                $body
            }
            #[cfg(feature = "sim")]
            $enum::Sim($own) => {
                #[allow(unused_macros)]
                macro_rules! $make {
                    ($kind:ident) => {
                        $kind::Sim
                    };
                    ($kind:ident, $it:pat) => {
                        $kind::Sim($it)
                    };
                }
                $body
            }
            #[cfg(feature = "verbs")]
            $enum::Verbs($own) => {
                #[allow(unused_macros)]
                macro_rules! $make {
                    ($kind:ident) => {
                        $kind::Verbs
                    };
                    ($kind:ident, $it:pat) => {
                        $kind::Verbs($it)
                    };
                }
                $body
            }
        }
    };
}

/// Defines methods that call the provider's method of the same name.
macro_rules! pass_on {
    ($any:ident: $(fn $name:ident(&self $(, $argument:ident: $type:ty)*) $(-> $result:ty)?;)+) => {
        $(
            #[inline]
            fn $name(&self $(, $argument: $type)*) $(-> $result)? {
                own!(self, $any, |own, make| own.$name($($argument),*))
            }
        )+
    };
}

impl AnyNic {
    /// Opens a NIC of a provider by name:
    ///
    /// - `shm`: any name.
    /// - `eth`: a place such as `udp:10.0.0.1:7000` or `eth:eth0`. All NICs that this process opens there share one
    ///   port.
    /// - `ofi`: a libfabric provider with an optional address, such as `tcp;ofi_rxm@10.0.0.1:7000` or `shm`.
    /// - `verbs`: an RDMA NIC, such as `rxe0`, `10.0.0.1:7473` or `mlx5_0@10.0.0.1`.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(provider: &str, name: &str) -> Result<AnyNic, OpenError> {
        match provider {
            #[cfg(feature = "shm")]
            "shm" => ShmNic::open(name).map(AnyNic::Shm).map_err(|error| {
                let text = error.to_string();
                match error {
                    via_shm::nic::OpenError::Name => OpenError::Name(text),
                    via_shm::nic::OpenError::System(_) => OpenError::System(text),
                }
            }),
            #[cfg(feature = "eth")]
            "eth" => {
                let place = name
                    .parse()
                    .map_err(|error: via_eth::BadPlace| OpenError::Name(error.to_string()))?;
                let opened = via_eth::Config::new(place).open_shared();
                opened.map(AnyNic::Eth).map_err(|error| OpenError::System(error.to_string()))
            }
            #[cfg(feature = "ofi")]
            "ofi" => {
                let place = name
                    .parse()
                    .map_err(|error: via_ofi::BadPlace| OpenError::Name(error.to_string()))?;
                let opened = via_ofi::Config::new(place).open_shared();
                opened.map(AnyNic::Ofi).map_err(|error| OpenError::System(error.to_string()))
            }
            #[cfg(feature = "verbs")]
            "verbs" => {
                let opened = name.parse().and_then(|config| VerbsNic::open(&config));
                opened.map(AnyNic::Verbs).map_err(|error| match error {
                    via_verbs::OpenError::Name(_) => OpenError::Name(error.to_string()),
                    error => OpenError::System(error.to_string()),
                })
            }
            other => {
                let _ = name;
                Err(OpenError::Provider(other.to_owned()))
            }
        }
    }
}

impl AnyNic {
    /// Opens the NIC that a text names together with its provider: `shm:NAME`, `udp:10.0.0.1:7000`, `eth:eth0`,
    /// `xdp:eth0`, `agent:lan0`, `ofi:tcp;ofi_rxm@10.0.0.1`, `verbs:mlx5_0`.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_at(place: &str) -> Result<AnyNic, OpenError> {
        match place.split_once(':') {
            Some(("shm", name)) => AnyNic::open("shm", name),
            Some(("udp" | "eth" | "xdp" | "agent", _)) => AnyNic::open("eth", place),
            Some(("ofi", place)) => AnyNic::open("ofi", place),
            Some(("verbs", name)) => AnyNic::open("verbs", name),
            _ => Err(OpenError::Name(format!(
                "\"{place}\" is not a place for a NIC: expected shm:NAME, udp:ADDRESS:PORT with an address of this host, \
                 eth:DEVICE, xdp:DEVICE, agent:NAME, ofi:PROVIDER[@ADDRESS[:PORT]] for libfabric, or verbs:DEVICE"
            ))),
        }
    }

    /// Returns the host part of a remote NIC's address. The NIC need not be open.
    ///
    /// `place` is the text that names the NIC to its peers: `shm:NAME`, `udp:10.0.0.1:7000`, `mac:02:00:00:00:00:01`,
    /// `ofi:tcp;ofi_rxm@10.0.0.1:7000`, `verbs:10.0.0.1:7473`.
    ///
    /// ```
    /// use sovia_nic::AnyNic;
    ///
    /// assert_eq!(AnyNic::host_of("udp:10.0.0.1:7000")?[..4], [10, 0, 0, 1]);
    /// assert!(AnyNic::host_of("eth:eth0").is_err(), "that is a device here");
    /// # Ok::<(), sovia_nic::OpenError>(())
    /// ```
    ///
    /// # Errors
    /// [`OpenError::Name`], [`OpenError::Provider`].
    pub fn host_of(place: &str) -> Result<Box<[u8]>, OpenError> {
        match place.split_once(':') {
            #[cfg(feature = "shm")]
            Some(("shm", name)) => {
                ShmNic::host_of(name).map_err(|error| OpenError::Name(error.to_string()))
            }
            #[cfg(feature = "eth")]
            Some(("udp" | "mac", _)) => {
                let station: Result<via_eth::Station, _> = place.parse();
                let host = station.map(|station| station.host().into());
                host.map_err(|error| OpenError::Name(error.to_string()))
            }
            #[cfg(feature = "ofi")]
            Some(("ofi", place)) => {
                let place: via_ofi::Place = place
                    .parse()
                    .map_err(|error: via_ofi::BadPlace| OpenError::Name(error.to_string()))?;
                place.host().map(Into::into).ok_or_else(|| {
                    OpenError::Name(format!(
                        "ofi:{place}: the address of this NIC is not known before the NIC is open; give PROVIDER@ADDRESS:PORT"
                    ))
                })
            }
            #[cfg(feature = "verbs")]
            Some(("verbs", name)) => match name.parse::<via_verbs::Config>() {
                Ok(config) => Ok(VerbsNic::address_at(&config, &[]).host),
                Err(error) => Err(OpenError::Name(error.to_string())),
            },
            #[cfg(not(all(feature = "shm", feature = "eth", feature = "ofi", feature = "verbs")))]
            Some((provider @ ("shm" | "udp" | "mac" | "ofi" | "verbs"), _)) => {
                Err(OpenError::Provider(provider.to_owned()))
            }
            _ => Err(OpenError::Name(format!(
                "\"{place}\" is not the place of another NIC: expected shm:NAME, udp:ADDRESS:PORT, mac:XX:XX:XX:XX:XX:XX of its \
                 Ethernet device, ofi:PROVIDER@ADDRESS:PORT, or verbs:ADDRESS:PORT"
            ))),
        }
    }
}

/// Returns the provider's own queue. Fails if `cq` belongs to another provider.
fn queue<'q, Q>(
    cq: Option<&'q AnyCq>,
    own: impl Fn(&'q AnyCq) -> Option<&'q Q>,
) -> Result<Option<&'q Q>, CreateViError> {
    cq.map(|cq| own(cq).ok_or(CreateViError::ForeignCq)).transpose()
}

impl Nic for AnyNic {
    type Vi = AnyVi;
    type Connection = AnyConnection;
    type Cq = AnyCq;

    pass_on! { AnyNic:
        fn attributes(&self) -> &NicAttributes;
        fn create_ptag(&self) -> Result<Ptag, PtagError>;
        fn destroy_ptag(&self, ptag: Ptag) -> Result<(), PtagError>;
        fn register_mem(&self, memory: &Memory, attributes: MemAttributes) -> Result<MemHandle, RegisterError>;
        fn deregister_mem(&self, handle: MemHandle) -> Result<(), MemError>;
        fn query_mem(&self, handle: MemHandle) -> Result<(Memory, MemAttributes), MemError>;
        fn set_mem_attributes(&self, handle: MemHandle, attributes: MemAttributes) -> Result<(), MemError>;
        fn set_error_handler(&self, handler: Option<ErrorHandler>);
        fn report(&self, error: AsyncError);
        fn callbacks_wait(&self) -> bool;
        fn run_callbacks(&self);
    }

    fn create_cq(&self, entries: u32, context: u64) -> Result<AnyCq, CqError> {
        own!(self, AnyNic, |nic, make| nic.create_cq(entries, context).map(make!(AnyCq)))
    }

    fn create_vi(&self, attributes: ViAttributes) -> Result<AnyVi, CreateViError> {
        own!(self, AnyNic, |nic, make| nic.create_vi(attributes).map(make!(AnyVi)))
    }

    fn create_vi_with(
        &self,
        attributes: ViAttributes,
        attach: Attach<'_, AnyCq>,
    ) -> Result<AnyVi, CreateViError> {
        let Attach { send, recv, context } = attach;
        own!(self, AnyNic, |nic, make| {
            let own = |cq| {
                queue(cq, |cq| match cq {
                    make!(AnyCq, cq) => Some(cq),
                    #[allow(unreachable_patterns, reason = "where there is one provider")]
                    _ => None,
                })
            };
            let attach = Attach { send: own(send)?, recv: own(recv)?, context };
            nic.create_vi_with(attributes, attach).map(make!(AnyVi))
        })
    }

    fn connect_wait(
        &self,
        local: &NetAddress,
        timeout: Option<Duration>,
    ) -> Result<AnyConnection, ConnectError> {
        own!(self, AnyNic, |nic, make| nic.connect_wait(local, timeout).map(make!(AnyConnection)))
    }
}

impl Connection for AnyConnection {
    type Vi = AnyVi;

    pass_on! { AnyConnection:
        fn remote_address(&self) -> &NetAddress;
        fn remote_attributes(&self) -> &ViAttributes;
    }

    fn accept(self, vi: &AnyVi) -> Result<(), NotAccepted<AnyConnection>> {
        own!(self, AnyConnection, |request, make| match vi {
            make!(AnyVi, vi) => request.accept(vi).map_err(|not| not.map(make!(AnyConnection))),
            #[allow(unreachable_patterns, reason = "where there is one provider")]
            _ => {
                let error = ConnectError::InvalidParameter("a VI of another provider");
                Err(NotAccepted::left(error, make!(AnyConnection)(request)))
            }
        })
    }

    fn reject(self) {
        own!(self, AnyConnection, |request, make| request.reject());
    }
}

impl Vi for AnyVi {
    pass_on! { AnyVi:
        fn attributes(&self) -> ViAttributes;
        fn set_attributes(&self, attributes: ViAttributes) -> Result<(), SetViError>;
        fn context(&self) -> u64;
        fn state(&self) -> ViState;
        fn cause(&self) -> Option<Cause>;
        fn queues_empty(&self) -> (bool, bool);
        fn connect_request(&self, local: &NetAddress, remote: &NetAddress, timeout: Option<Duration>) -> Result<ViAttributes, ConnectError>;
        fn connect_peer_request(&self, local: &NetAddress, remote: &NetAddress, timeout: Option<Duration>) -> Result<(), ConnectError>;
        fn connect_peer_done(&self) -> Option<Result<ViAttributes, ConnectError>>;
        fn connect_peer_wait(&self) -> Result<ViAttributes, ConnectError>;
        fn disconnect(&self);
        fn post_send(&self, descriptor: DescriptorAddress) -> Result<(), PostError>;
        fn post_recv(&self, descriptor: DescriptorAddress) -> Result<(), PostError>;
        fn send_done(&self) -> Done;
        fn recv_done(&self) -> Done;
        fn send_wait(&self, timeout: Option<Duration>) -> Result<Completion, WaitError>;
        fn recv_wait(&self, timeout: Option<Duration>) -> Result<Completion, WaitError>;
        fn send_notify(&self, callback: ViCallback);
        fn recv_notify(&self, callback: ViCallback);
        fn push_sends(&self) -> bool;
        fn bequest(&self) -> Option<Box<dyn Bequest>>;
    }

    fn destroy(self) -> Result<(), (AnyVi, IllegalTransition)> {
        own!(self, AnyVi, |vi, make| vi.destroy().map_err(|(vi, error)| (make!(AnyVi)(vi), error)))
    }
}

impl CompletionQueue for AnyCq {
    pass_on! { AnyCq:
        fn capacity(&self) -> u32;
        fn resize(&self, entries: u32) -> Result<(), CqError>;
        fn done(&self) -> Option<CqEntry>;
        fn wait(&self, timeout: Option<Duration>) -> Result<CqEntry, WaitError>;
        fn notify(&self, callback: CqCallback);
        fn signal(&self, signal: CqSignal);
        fn watch(&self) -> Option<Watch>;
        fn awake(&self, ready: [bool; 3]);
        fn in_use(&self) -> bool;
    }

    fn destroy(self) -> Result<(), AnyCq> {
        own!(self, AnyCq, |cq, make| cq.destroy().map_err(make!(AnyCq)))
    }
}

#[cfg(all(test, feature = "shm"))]
mod tests {
    use super::*;

    /// The bequest of the shm provider is available through [`AnyNic`].
    #[test]
    fn a_bequest_reaches_the_layer_above() {
        let name = format!("provider-{}", std::process::id());
        let nic = AnyNic::Shm(ShmNic::open(&name).expect("a NIC"));
        let host = nic.attributes().local_address.clone();
        let (here, there) = (NetAddress::new(&host, b"here"), NetAddress::new(&host, b"there"));
        let vis = [(); 2].map(|()| nic.create_vi(ViAttributes::default()).expect("a VI"));
        assert!(vis[0].bequest().is_none());
        vis[0].connect_peer_request(&here, &there, None).expect("it begins");
        vis[1].connect_peer_request(&there, &here, None).expect("it begins");
        for vi in &vis {
            vi.connect_peer_wait().expect("connected");
        }
        let [mine, theirs] = vis.each_ref().map(|vi| vi.bequest().expect("shared memory"));
        assert!(mine.write(0, b"left"));
        mine.publish(0, 4);
        let mut found = [0; 4];
        assert!(theirs.read(0, &mut found));
        assert_eq!((theirs.published(0), &found), (4, b"left"));
    }
}
