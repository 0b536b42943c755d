//! Teams whose size changes at each region: the time of two regions, one of each size.

use crate::harness::native::entry;
use crate::harness::regions::{self, Body, count, fork};
use crate::harness::sample::{Subject, back_to_back};
use crate::harness::{Bar, Case, Engine, Runtime};
use nanothreads::{Team, TeamMember};

pub(super) fn cases() -> Vec<Case> {
    // An empty region of two, and one round trip more.
    let bar = Some(Bar::RoundTrips { near: 2.4, far: 2.35 });
    vec![case("sizes 2 and 1 in turn", 2, 1, bar), case("sizes 2 and 3 in turn", 2, 3, None)]
}

fn case(name: &str, one: usize, other: usize, bar: Option<Bar>) -> Case {
    const FIXED: &str = "the size of its pool is fixed";
    let mut engines = vec![Engine::new("nanothreads", Runtime::Ours, move |row| {
        regions::configure(row);
        let run = move || {
            fork(one, &(count as Body));
            fork(other, &(count as Body));
        };
        Ok(subject(run, one, other))
    })];
    engines.push(Engine::new("nanothreads Team", Runtime::Ours, move |row| {
        regions::configure(row);
        let team = |size| Team::exact(size).map_err(|error| error.to_string());
        let teams = [team(one)?, team(other)?];
        let body = |member: &TeamMember<'_>| count(u32::try_from(member.id()).unwrap_or(u32::MAX));
        Ok(subject(move || teams.iter().for_each(|team| team.run(body)), one, other))
    }));
    let natives = [
        ("libgomp", Runtime::Libgomp, "region"),
        ("libomp", Runtime::Libomp, "region"),
        ("oneTBB task_arena", Runtime::Tbb, "sized"),
    ];
    for (name, runtime, function) in natives {
        engines.push(Engine::new(name, runtime, move |_| {
            if runtime == Runtime::Tbb && one.max(other) > 2 {
                return Err("an arena is not larger than the machine".into());
            }
            let region = entry(runtime, function)?;
            let run = move || {
                region.call(count as Body as usize, one, 0);
                region.call(count as Body as usize, other, 0);
            };
            Ok(subject(run, one, other))
        }));
    }
    engines.push(Engine::new("orx-parallel for_each", Runtime::Crate, move |_| {
        if one.max(other) > 2 {
            return Err("its pool is not larger than the machine".into());
        }
        let region = |size: usize| {
            let parts = u32::try_from(size).unwrap_or(u32::MAX);
            regions::orx_parts(parts, size, |part| count(part));
        };
        let run = move || {
            region(one);
            region(other);
        };
        Ok(subject(run, one, other))
    }));
    engines.extend(["rayon", "fork_union", "chili"].map(|name| Engine::absent(name, FIXED)));
    Case { name: name.into(), measure: back_to_back(), extras: &[], engines, bar }
}

fn subject(run: impl FnMut() + 'static, one: usize, other: usize) -> Subject {
    let check = move |calls| {
        // The parts that both sizes have, and those that only the larger one has.
        regions::counted(one.min(other), 2)(calls)?;
        regions::counted_from(one.min(other)..one.max(other), 1)(calls)
    };
    Subject::new(run, check)
}
