//! An end that its program connects.

use crate::core::Core;
use crate::error::SetUpError;
use crate::shared::Shared;
use crate::stream::Stream;
use sovia_proto::configuration::Configuration;
use std::sync::Arc;
use via::Nic;

/// An end with posted receives, whose VI the caller must connect. For connections that both ends request
/// ([`via::Vi::connect_peer_request`]), and for programs that step a simulated network themselves.
#[derive(Debug)]
pub struct Unconnected<N: Nic + 'static>(Arc<Core<N>>);

impl<N: Nic + 'static> Unconnected<N> {
    pub(crate) fn new(
        stack: &Arc<Shared<N>>,
        configuration: &Configuration,
    ) -> Result<Unconnected<N>, SetUpError> {
        Ok(Unconnected(Core::new(stack, configuration)?))
    }

    /// Returns the VI for connecting. The caller must not use it for anything else.
    pub fn vi(&self) -> &N::Vi {
        &self.0.vi
    }

    /// Returns the stream after the caller has connected the VI. The stream sends its terms to the peer now.
    pub fn connected(self) -> Stream<N> {
        self.0.begin();
        Stream(self.0)
    }
}
