//! Help with tasks by members that have left their region, and by its master in the join: what they
//! are called back for.
//!
//! A region whose body never had tasks lets its members go ([`Team::is_task_free`]). If it has a
//! task one day, the member that created it may wait for it in the program's own code, and all
//! other members that are still in the region may, too.

use super::wait::run_any;
use crate::frame::{self, Frame};
use crate::team::Team;
use engine::Member;

/// Runs what tasks there are, as `member`, whose own part is done.
///
/// # Safety
/// - `team` points to the [`Team`] of a region that is not joined; the caller is the region's
///   member `member`, and in no frame of it.
pub(super) unsafe fn help(team: *const (), member: Member) {
    // SAFETY: - caller's contract.
    let team = unsafe { &*team.cast::<Team>() };
    if team.tasks.all_complete(member.size) {
        return;
    }
    let frame = Frame::new(team, member.id, team.member_icvs());
    frame.settle();
    let before = frame::switch(&raw const frame);
    while run_any(&frame) {}
    frame::switch(before);
}
