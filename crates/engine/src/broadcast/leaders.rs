//! Which members of a team arrive through which.
//!
//! A team that spans several last-level caches has a leader in each, and no leader has more than
//! [`CLUSTER`] members.

use crate::placement::nearness::{self, Placed};

/// Members that arrive through one leader: above this a cluster costs its leader more than another
/// level costs the master (with reads of a line at distance L and c between two of them in flight,
/// two levels win from about 16 on).
const CLUSTER: usize = 16;

/// For each member of a team, the master first: its leader. A leader leads itself, and its number
/// is the lowest of its cluster, so that the leaders of a team are those of any larger one.
pub(crate) fn leaders(members: &[&'static impl Placed]) -> Vec<usize> {
    clusters(&caches(members))
}

fn clusters(caches: &[u32]) -> Vec<usize> {
    let mut leader_of = Vec::with_capacity(caches.len());
    for (id, cache) in caches.iter().enumerate() {
        // The last cluster of this cache, if it has room.
        let cluster =
            (0..id).rev().find(|&other| caches[other] == *cache).map(|other| leader_of[other]);
        let has_room =
            |&leader: &usize| leader_of.iter().filter(|&&other| other == leader).count() < CLUSTER;
        leader_of.push(cluster.filter(has_room).unwrap_or(id));
    }
    leader_of
}

/// The last-level cache of each member, the master first, as far as it is known ([`nearness`]). One
/// whose place is not known counts as the master's neighbour.
fn caches(members: &[&'static impl Placed]) -> Vec<u32> {
    let Some(places) = nearness::places(members) else {
        return vec![0; members.len() + 1];
    };
    let here = places.clone().next().flatten().map_or(0, |place| place.cache);
    places.map(|place| place.map_or(here, |place| place.cache)).collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_cache_up_to_sixteen_members_has_the_master_as_its_only_leader() {
        assert_eq!(clusters(&[0; 16]), [0; 16]);
        let forty = clusters(&[0; 40]);
        assert!(forty.iter().enumerate().all(|(id, &leader)| leader == id / 16 * 16));
    }

    #[test]
    fn each_cache_has_a_leader_of_its_own() {
        assert_eq!(clusters(&[3, 3, 5, 5, 3, 7, 5]), [0, 0, 2, 2, 0, 5, 2]);
    }

    proptest! {
        #[test]
        fn clusters_stay_in_one_cache_and_hold_for_every_smaller_team(caches in prop::collection::vec(0_u32..4, 1..80)) {
            let leader_of = clusters(&caches);
            for (id, &leader) in leader_of.iter().enumerate() {
                prop_assert!(leader <= id && leader_of[leader] == leader && caches[leader] == caches[id]);
                prop_assert!(leader_of.iter().filter(|&&other| other == leader).count() <= CLUSTER);
            }
            for size in 1..caches.len() {
                prop_assert_eq!(&clusters(&caches[..size]), &leader_of[..size]);
            }
        }
    }
}
