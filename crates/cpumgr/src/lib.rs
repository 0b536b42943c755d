//! The processor manager as a library: the daemon, its command line and its messages.

pub mod administration;
pub mod bucket;
pub mod cli;
pub mod command;
pub mod daemon;
pub mod duration;
pub mod error;
pub mod escape;
pub mod instance;
pub mod kernel;
pub mod ledger;
pub mod limits;
pub mod machine;
pub mod preload;
pub mod reactor;
pub mod reclaim;
pub mod run;
pub mod server;
pub mod simulate;
pub mod socket;
pub mod status;
pub mod threads;
pub mod trace;
