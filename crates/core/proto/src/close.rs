//! Closing: FIN says that an end sends no more, FINACK answers it (ICS figure 11).

use crate::Violation;
use crate::packet::Kind;

/// How far an end has come in closing. Each direction closes by itself (half close).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(C)]
pub struct Closing {
    /// We have sent FIN.
    pub fin_sent: bool,
    /// The peer has answered it.
    pub fin_acked: bool,
    /// The peer's FIN has been reached in its stream.
    pub fin_received: bool,
}

impl Closing {
    /// Whether a FIN is due now that the program has closed its sending side.
    pub const fn send_fin(&mut self) -> bool {
        let first = !self.fin_sent;
        self.fin_sent = true;
        first
    }

    /// A FIN or FINACK has been reached; true if it must be answered by FINACK.
    ///
    /// # Errors
    /// [`Violation`] for a second FIN, or for an answer to a FIN that was never sent.
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

    /// Whether both ends have finished.
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
