//! Carries a link's frames between two agents in the messages of a VI, over any provider.
//!
//! Two agents whose NICs are of the same kind exchange frames by a VI of these NICs. Other agents use UDP. The link
//! above (`sovia_link`) is the same in both cases. When a VI breaks, the link sends the lost frames again by another
//! route. So a trunk must be fast, but need not be reliable: its failures lose no byte of a program.
//!
//! - `message`: packs frames into a message and unpacks them.
//! - `trunk`: one VI. SOVIA's window and delayed acknowledgements (ICS section 4.2) ensure that each message meets a
//!   posted receive.
//! - [`Trunks`]: all trunks of an agent, with one completion queue.
//!
//! ```
//! use sovia_trunk::{News, Trunks};
//! use std::sync::Arc;
//! use via_sim::{Config, Network};
//!
//! let network = Network::new(1, Config::default());
//! let nics = ["a", "b"].map(|name| Arc::new(network.nic(name)));
//! let mut ends = nics.map(|nic| Trunks::new(nic).unwrap());
//! let hosts: Vec<_> = ends.iter().map(|end| end.host().to_vec()).collect();
//! ends[0].connect(7, &hosts[1], b"trunk")?;
//! ends[1].connect(8, &hosts[0], b"trunk")?;
//! network.run();
//! ends.iter_mut().for_each(|end| end.look(&mut |_, _, _| {}).then(|| ()).unwrap());
//! assert_eq!(ends[0].news(), Some((7, News::Up)));
//!
//! let mut frames = [b"one", b"two"].into_iter();
//! ends[0].transmit(7, 1500, &mut |room| {
//!     let frame = frames.next()?;
//!     room[..frame.len()].copy_from_slice(frame);
//!     Some(frame.len())
//! });
//! network.run();
//! let mut came = Vec::new();
//! ends[1].look(&mut |peer, run, frame| came.push((peer, run.to_vec(), frame)));
//! assert_eq!(came, [(8, b"onetwo".to_vec(), 3)]);
//! # Ok::<(), sovia_trunk::MakeError>(())
//! ```

#![forbid(unsafe_code)]

mod message;
mod trunk;
mod trunks;

pub use trunk::{FRAME_MAX, MakeError};
pub use trunks::{News, PeerId, Transmitted, Trunks};
