//! Which provider's NIC a program gets.
//!
//! Everything above works on these enums, which are providers themselves. A further provider is a
//! further variant here, and a further value of the setting.

use crate::boundary::complain;
use core::time::Duration;
use via::cq::{CqCallback, CqEntry, CqSignal};
use via::error::{
    Cause, ConnectError, CqError, CreateViError, MemError, NotAccepted, PostError, PtagError,
    RegisterError, SetViError, WaitError,
};
use via::event::{ErrorHandler, ViCallback};
use via::state::IllegalTransition;
use via::{
    AsyncError, Attach, Bequest, Completion, CompletionQueue, Connection, DescriptorAddress, Done,
    MemAttributes, MemHandle, Memory, NetAddress, Nic, NicAttributes, Ptag, ReturnCode, Vi,
    ViAttributes, ViState,
};
use via_shm::ShmNic;

/// The setting that names the provider.
const PROVIDER: &str = "SOVIA_VIPL_PROVIDER";
/// The setting that names the NIC which every device's name stands for.
const NIC: &str = "SOVIA_VIPL_NIC";
/// The NIC where the setting says nothing.
const DEFAULT_NIC: &str = "vipl";
/// In place of a NIC's name: each device's name is a NIC of its own.
const EACH: &str = "*";

/// A NIC of any provider.
pub(crate) enum AnyNic {
    Shm(ShmNic),
}

/// A VI of any provider.
pub(crate) enum AnyVi {
    Shm(<ShmNic as Nic>::Vi),
}

/// A completion queue of any provider.
pub(crate) enum AnyCq {
    Shm(<ShmNic as Nic>::Cq),
}

/// A request for a connection of any provider.
pub(crate) enum AnyConnection {
    Shm(<ShmNic as Nic>::Connection),
}

/// A value of a setting; `None` where it is not set, or empty.
pub(crate) fn setting(name: &str) -> Option<String> {
    std::env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(|value| value.to_string_lossy().into_owned())
}

impl AnyNic {
    /// Opens the NIC that a device's name stands for.
    ///
    /// # Errors
    /// `VIP_ERROR` for a setting that makes no sense, `VIP_ERROR_RESOURCE` where the system has
    /// too little of something; each with a line on standard error.
    pub(crate) fn open(device: &str) -> Result<AnyNic, ReturnCode> {
        let named = setting(NIC);
        let name = match named.as_deref() {
            None => DEFAULT_NIC,
            Some(EACH) => device,
            Some(name) => name,
        };
        match setting(PROVIDER).as_deref() {
            None | Some("shm") => ShmNic::open(name).map(AnyNic::Shm).map_err(|error| {
                complain(format_args!("{device} as {name}: {error}"));
                match error {
                    via_shm::nic::OpenError::Name => ReturnCode::Error,
                    via_shm::nic::OpenError::System(_) => ReturnCode::ErrorResource,
                }
            }),
            Some(other) => {
                complain(format_args!("{PROVIDER}={other}: no such provider; there is: shm"));
                Err(ReturnCode::Error)
            }
        }
    }
}

/// Methods that the provider's own does.
macro_rules! pass_on {
    ($any:ident: $(fn $name:ident(&self $(, $argument:ident: $type:ty)*) $(-> $result:ty)?;)+) => {
        $(
            #[inline]
            fn $name(&self $(, $argument: $type)*) $(-> $result)? {
                match self {
                    $any::Shm(own) => own.$name($($argument),*),
                }
            }
        )+
    };
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
        match self {
            AnyNic::Shm(nic) => nic.create_cq(entries, context).map(AnyCq::Shm),
        }
    }

    fn create_vi(&self, attributes: ViAttributes) -> Result<AnyVi, CreateViError> {
        match self {
            AnyNic::Shm(nic) => nic.create_vi(attributes).map(AnyVi::Shm),
        }
    }

    fn create_vi_with(
        &self,
        attributes: ViAttributes,
        attach: Attach<'_, AnyCq>,
    ) -> Result<AnyVi, CreateViError> {
        let Attach { send, recv, context } = attach;
        match self {
            AnyNic::Shm(nic) => {
                let send = send.map(|AnyCq::Shm(cq)| cq);
                let recv = recv.map(|AnyCq::Shm(cq)| cq);
                let attach = Attach { send, recv, context };
                nic.create_vi_with(attributes, attach).map(AnyVi::Shm)
            }
        }
    }

    fn connect_wait(
        &self,
        local: &NetAddress,
        timeout: Option<Duration>,
    ) -> Result<AnyConnection, ConnectError> {
        match self {
            AnyNic::Shm(nic) => nic.connect_wait(local, timeout).map(AnyConnection::Shm),
        }
    }
}

impl Connection for AnyConnection {
    type Vi = AnyVi;

    pass_on! { AnyConnection:
        fn remote_address(&self) -> &NetAddress;
        fn remote_attributes(&self) -> &ViAttributes;
    }

    fn accept(self, vi: &AnyVi) -> Result<(), NotAccepted<AnyConnection>> {
        match (self, vi) {
            (AnyConnection::Shm(connection), AnyVi::Shm(vi)) => {
                connection.accept(vi).map_err(|not| not.map(AnyConnection::Shm))
            }
        }
    }

    fn reject(self) {
        match self {
            AnyConnection::Shm(connection) => connection.reject(),
        }
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
        match self {
            AnyVi::Shm(vi) => vi.destroy().map_err(|(vi, error)| (AnyVi::Shm(vi), error)),
        }
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
        fn in_use(&self) -> bool;
    }

    fn destroy(self) -> Result<(), AnyCq> {
        match self {
            AnyCq::Shm(cq) => cq.destroy().map_err(AnyCq::Shm),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a provider offers reaches the layers above libvipl's NIC: here the memory by which combined
    /// bytes survive their writer.
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
