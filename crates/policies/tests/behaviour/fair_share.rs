//! Fair share over days: how consumption fades, and that no user gets ahead of another one.

use policies::Nanos;
use policies::fair_share::FairShare;
use proptest::prelude::*;

const HOUR: Nanos = 3_600_000_000_000;

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * (1.0 + a.abs().max(b.abs()))
}

#[test]
fn what_was_consumed_counts_by_half_after_each_half_life() {
    let mut shares = FairShare::new(24 * HOUR);
    shares.charge(7, 0, 8e9);
    for (hours, left) in [(0, 8e9), (24, 4e9), (48, 2e9), (72, 1e9)] {
        assert!(near(shares.consumed(7, hours * HOUR), left), "{hours}");
    }
    shares.charge(7, 48 * HOUR, 1e9);
    assert!(near(shares.consumed(7, 72 * HOUR), 1.5e9));
    assert!(shares.consumed(7, 10_000 * HOUR) == 0.0, "it fades away");
    assert!(shares.consumed(8, 0) == 0.0, "another user");
    // From now on slower.
    shares.set_half_life(72 * HOUR, 48 * HOUR);
    assert!(near(shares.consumed(7, 120 * HOUR), 0.75e9));
}

#[test]
fn a_long_run_counts_as_its_parts_do() {
    let shares = FairShare::new(24 * HOUR);
    let whole = shares.left_of(48e9, 48 * HOUR, 5 * HOUR);
    let parts: f64 =
        (0..48_000).map(|part| shares.left_of(1e6, 0, 5 * HOUR + part * HOUR / 1000)).sum();
    assert!((whole / parts - 1.0).abs() < 1e-4, "{whole} {parts}");
    assert!(near(shares.left_of(3.0, 0, 24 * HOUR), 1.5));
}

#[test]
fn the_user_that_consumed_least_comes_first_and_weights_count() {
    let mut shares = FairShare::new(HOUR);
    shares.charge(1, 0, 6e9);
    shares.charge(2, 0, 4e9);
    let users = [1, 2, 1, 3, 2];
    assert_eq!(shares.order(0, &users, |_| 1.0), [3, 1, 4, 0, 2]);
    assert_eq!(shares.order(0, &users, |user| if user == 1 { 2.0 } else { 1.0 }), [3, 0, 2, 1, 4]);
    assert_eq!(shares.order(0, &users, |_| f64::NAN), [3, 1, 4, 0, 2]);
    assert_eq!(FairShare::new(HOUR).order(5, &users, |_| 1.0), [0, 1, 2, 3, 4], "as they came");
}

#[test]
fn there_is_a_bound_of_users_and_those_that_consumed_most_are_kept() {
    let mut shares = FairShare::new(HOUR);
    for user in 0..6_000 {
        shares.charge(user, 0, 1e9 + f64::from(user));
    }
    let known = (0..6_000).filter(|user| shares.consumed(*user, 0) > 0.0).count();
    assert_eq!(known, 4096);
    assert!(shares.consumed(0, 0) == 0.0 && shares.consumed(5_999, 0) > 0.0);
}

/// What happens to one of four users: time passes, and it consumes something.
fn events() -> impl Strategy<Value = Vec<(u32, Nanos, f64)>> {
    prop::collection::vec((0..4_u32, 0..HOUR, 0.0..1e12_f64), 1..40)
}

proptest! {
    #[test]
    fn order_is_one_of_all_places_by_consumption_and_time_alone_does_not_change_it(
        events in events(),
        users in prop::collection::vec(0..6_u32, 0..30),
        later in 0..20 * HOUR,
    ) {
        let mut shares = FairShare::new(24 * HOUR);
        let mut now = 0;
        for (user, passes, amount) in events {
            now += passes;
            shares.charge(user, now, amount);
        }
        let order = shares.order(now, &users, |_| 1.0);
        let mut places = order.clone();
        places.sort_unstable();
        prop_assert!(places.into_iter().eq(0..users.len()));
        for pair in order.windows(2) {
            let [a, b] = [pair[0], pair[1]];
            let [of_a, of_b] = [a, b].map(|at| shares.consumed(users[at], now));
            prop_assert!(of_a < of_b || (of_a == of_b && a < b) || users[a] != users[b] && of_a <= of_b);
        }
        // U1, but for what has faded away, and users that are as good as equal.
        let apart = |a: u32, b: u32| {
            let [a, b] = [a, b].map(|user| shares.consumed(user, now + later));
            a == 0.0 && b == 0.0 || a == b || (a / b - 1.0).abs() > 1e-9
        };
        if users.iter().all(|a| users.iter().all(|b| apart(*a, *b))) {
            let [all_now, all_later] = [now, now + later].map(|at| {
                let gone = |user: &u32| shares.consumed(*user, now + later) > 0.0;
                let there: Vec<u32> = users.iter().copied().filter(gone).collect();
                shares.order(at, &there, |_| 1.0)
            });
            prop_assert_eq!(all_now, all_later);
        }
    }

    #[test]
    fn a_charge_in_parts_is_the_same_as_one_at_once(
        amount in 0.0..1e12_f64,
        parts in 1..20_u32,
        age in 0..100 * HOUR,
    ) {
        let [mut whole, mut split] = [FairShare::new(7 * HOUR), FairShare::new(7 * HOUR)];
        whole.charge(1, 5, amount);
        (0..parts).for_each(|_| split.charge(1, 5, amount / f64::from(parts)));
        let [a, b] = [whole, split].map(|it| it.consumed(1, 5 + age));
        prop_assert!(near(a, b) || a.max(b) < 2.0, "{a} {b}");
    }

    /// U2 and U3: one job runs at a time, and each user always has one waiting.
    #[test]
    fn no_user_is_further_ahead_than_a_job_takes_and_all_get_their_weights(
        weights in prop::collection::vec(0.5..4.0_f64, 2..5),
        jobs in prop::collection::vec(1..HOUR, 200..300),
        half_life in HOUR..100 * HOUR,
    ) {
        let mut shares = FairShare::new(half_life);
        let users: Vec<u32> = (0..).take(weights.len()).collect();
        let weight = |user: u32| weights[user as usize];
        let (mut now, mut last_ran) = (0, vec![0; weights.len()]);
        for (turn, &takes) in jobs.iter().enumerate() {
            let first = users[shares.order(now, &users, weight)[0]];
            last_ran[first as usize] = turn;
            now += takes;
            shares.charge(first, now, takes as f64);
            let relative: Vec<f64> =
                users.iter().map(|user| shares.consumed(*user, now) / weight(*user)).collect();
            let least = relative.iter().copied().fold(f64::INFINITY, f64::min);
            for (user, has) in users.iter().zip(&relative) {
                let most = HOUR as f64 / weight(*user);
                prop_assert!(has - least <= most * (1.0 + 1e-9), "{user} is ahead: {relative:?}");
            }
        }
        // U3: the least weight is an eighth of the largest, and four users wait: after one of its
        // jobs, of an hour at most, each of three others has eight hours at most before it.
        let late = jobs.iter().rev().scan(0, |sum, job| { *sum += job; Some(*sum) });
        let since = jobs.len() - late.take_while(|sum| *sum <= 30 * HOUR).count();
        prop_assert!(last_ran.iter().all(|turn| *turn + 1 >= since), "{last_ran:?} {since}");
    }
}
