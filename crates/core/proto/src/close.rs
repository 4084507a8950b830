//! Closing: an end sends FIN after its last byte, and the peer answers with FINACK (ICS figure 11).

use crate::Violation;
use crate::packet::Kind;

/// State of one end's closing. The two directions of a stream close independently (half close).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(C)]
pub struct Closing {
    /// This end has sent FIN.
    pub fin_sent: bool,
    /// The peer has answered this end's FIN.
    pub fin_acked: bool,
    /// This end has reached the peer's FIN in the stream.
    pub fin_received: bool,
}

impl Closing {
    /// Records that the program has closed its sending half. Returns true if FIN must be sent now.
    pub const fn send_fin(&mut self) -> bool {
        let first = !self.fin_sent;
        self.fin_sent = true;
        first
    }

    /// Records a FIN or FINACK that this end has reached in the stream. Returns true if this end must answer with
    /// FINACK.
    ///
    /// # Errors
    /// [`Violation`] for a second FIN, or for an answer to a FIN that this end never sent.
    pub const fn arrived(&mut self, kind: Kind) -> Result<bool, Violation> {
        match kind {
            Kind::Fin if self.fin_received => Err(Violation("a second FIN")),
            Kind::Fin => {
                self.fin_received = true;
                Ok(true)
            }
            Kind::FinAck if !self.fin_sent || self.fin_acked => {
                Err(Violation("FINACK without a FIN"))
            }
            Kind::FinAck => {
                self.fin_acked = true;
                Ok(false)
            }
            _ => Ok(false),
        }
    }

    /// Returns true if both ends have finished.
    pub const fn is_finished(&self) -> bool {
        self.fin_sent && self.fin_acked && self.fin_received
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_direction_closes_by_itself() {
        let mut end = Closing::default();
        assert_eq!(end.arrived(Kind::Fin), Ok(true));
        assert!(!end.is_finished());
        assert!(end.send_fin());
        assert!(!end.send_fin(), "FIN is sent once");
        assert_eq!(end.arrived(Kind::FinAck), Ok(false));
        assert!(end.is_finished());
    }

    #[test]
    fn no_end_closes_twice_or_acknowledges_a_fin_that_was_not_sent() {
        let mut end = Closing::default();
        assert!(end.arrived(Kind::FinAck).is_err());
        end.arrived(Kind::Fin).unwrap();
        assert!(end.arrived(Kind::Fin).is_err());
        end.send_fin();
        end.arrived(Kind::FinAck).unwrap();
        assert!(end.arrived(Kind::FinAck).is_err());
        assert_eq!(end.arrived(Kind::Data), Ok(false));
    }
}
