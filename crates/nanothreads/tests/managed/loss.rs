//! A program whose manager dies while a region is out goes on, unbound, without coming to a safe
//! point.

use crate::script::{eventually, mask_of, with_script};
use nanothreads::Team;
use platform::affinity::{CpuSet, current_tid};
use std::sync::Mutex;

#[test]
fn threads_of_a_region_that_is_out_get_their_mask_back_when_the_manager_dies() {
    own_process!();
    with_script(|script| {
        let [a, b] = script.cpus;
        let team = Team::exact(2).unwrap();
        eventually("the second thread is on the second processor", || {
            team.map(|_| mask_of(current_tid()))[1] == CpuSet::single(b)
        });
        script.grant(&[a], false);
        eventually("both are on the first", || {
            team.map(|_| mask_of(current_tid()))[1] == CpuSet::single(a)
        });
        let whole = script.whole.clone();
        let script = Mutex::new(script);
        team.run(|member| {
            let own = current_tid();
            if member.id() == 0 {
                script.lock().unwrap().die();
            } else {
                // It waits for no thread: no safe point.
                eventually("its mask is back", || mask_of(own) == whole);
            }
        });
        assert_eq!(mask_of(current_tid()), whole);
        assert_eq!(
            Team::available().map(|member| member.size()).len(),
            engine::processors(),
            "mask and quota count again"
        );
    });
}
