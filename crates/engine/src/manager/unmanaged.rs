//! What stands in the place of a processor manager where the crate is built without feature
//! `manager`: a type without a value.

use super::Sitter;
use super::standing::Standing;
use crate::sizer::TeamSizer;
use crate::workers::worker::Worker;
use platform::affinity::CpuSet;
use std::time::Duration;

/// The manager that a program follows: none.
#[derive(Debug)]
pub enum Managed {}

/// No manager is looked for.
pub(super) fn register(_library: &str, _processors: usize, _mask: &CpuSet) -> Option<Managed> {
    None
}

/// What is asked of a manager, if there is one.
macro_rules! unasked {
    ($($name:ident($($of:ty),*) $(-> $gives:ty)?;)*) => {
        impl Managed {
            $(pub(crate) fn $name(&self, $(_: $of),*) $(-> $gives)? {
                match *self {}
            })*
        }
    };
}

unasked! {
    on_return(fn());
    comes_back();
    takes_turns() -> bool;
    note_turns(u32, u32);
    has_one_in_turn() -> bool;
    at_fork(usize, usize) -> usize;
    standing() -> Option<Standing>;
    quantum_ns() -> u64;
    await_turn(u64) -> bool;
    asks_again();
    forked(u32);
    iteration_begins();
    at_safe_point(Option<&'static Worker>);
    between_pieces(&Sitter);
    falls_asleep(&Worker);
    idles(&Worker, u64) -> Option<Duration>;
    is_awake(&Worker);
    spare(&Worker);
    spare_no_more(&Sitter, &Worker);
    arrange(&[&'static Worker], &Sitter);
    sits(&Sitter) -> bool;
    sits_down_again(&Sitter, bool) -> bool;
    sit_down(&Sitter);
}

impl TeamSizer for Managed {
    fn limit(&self) -> usize {
        match *self {}
    }
}
