//! Worksharing constructs in flight, as plain state with its protocol: what the members of a team
//! share of them, and how far each of them is. What members do there is in [`crate::worksharing`].

mod doacross;
mod progress;
mod ring;

pub(crate) use doacross::Doacross;
pub(crate) use progress::Progress;
pub(crate) use ring::{Construct, ConstructData, ConstructRing, Encounter, Plan};
