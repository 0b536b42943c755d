use arena::message::{RefusedCode, Submit, ToManager};

use super::super::places::tests::{says, server};
use super::*;
use crate::config::{Config, Rules};

const SITE: &str = "[classes.small]\nmax = 1\nopen = true\n[classes.kept]\nmin = 1\n\
                    reserve = true\nopen = true\n[[class-rules]]\nclass = \"small\"\n\
                    label = \"nightly\"\n";

fn job(processors: u32, class: Option<&str>) -> ToManager {
    ToManager::Submit(Submit {
        processors: Some(ProcessorRange { least: processors, most: processors }),
        class: class.map(str::to_owned),
        ..Submit::plain(processors, "", true)
    })
}

#[test]
fn a_job_begins_where_its_class_and_those_that_keep_some_leave_it_its_processors() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, mut kept) = (server(dir.path(), Some(0)), Vec::new());
    let processors = u32::try_from(server.cpus.len()).unwrap();
    if processors < 2 {
        platform::skip!("needs two processors for a reserve of one");
        return;
    }
    server.set_rules(Rules::of(&Config::parse(SITE).unwrap()));
    let mut submit =
        |server: &mut Server, pid: i32, what: ToManager| says(server, &mut kept, (pid, 7), what);
    // What is more than its class ever has is refused, as is a class that is not there.
    let refused = Some(RefusedCode::NotPossible);
    assert_eq!(submit(&mut server, 5_000_001, job(2, Some("small"))), refused);
    assert_eq!(submit(&mut server, 5_000_002, job(1, Some("none"))), refused);
    let nightly = Submit { purpose: Some("nightly".into()), ..Submit::plain(1, "", true) };
    let range = Some(ProcessorRange { least: 2, most: 2 });
    let nightly = ToManager::Submit(Submit { processors: range, ..nightly });
    assert_eq!(submit(&mut server, 5_000_003, nightly), refused, "a rule says so");
    // So is what others leave no room for, at any time.
    assert_eq!(submit(&mut server, 5_000_007, job(processors, None)), refused);
    // One processor is kept; what the first one leaves is for one of the small ones.
    for (pid, size, class) in
        [(5_000_004, processors - 1, None), (5_000_005, 1, None), (5_000_006, 1, Some("kept"))]
    {
        assert_eq!(submit(&mut server, pid, job(size, class)), None);
    }
    let process = |server: &Server, id: u64| {
        let place = server.queue.iter().find(|place| place.id == id).unwrap();
        server.connections[&place.serial].peer.pid.0
    };
    let starts: Vec<i32> =
        server.next_starts(0).iter().map(|start| process(&server, start.id)).collect();
    // The second one waits, it cannot be said for how long; what is kept is not kept for it.
    assert_eq!(starts, [5_000_004, 5_000_006]);
}

#[test]
fn jobs_of_a_user_begin_within_its_cap_and_pass_no_other_users() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, mut kept) = (server(dir.path(), Some(0)), Vec::new());
    let processors = u32::try_from(server.cpus.len()).unwrap();
    if processors < 2 {
        platform::skip!("needs two processors for a job beside another one");
        return;
    }
    let capped = Rules::of(&Config::parse("[users.4711]\nprocessors = 1\n").unwrap());
    // Each its process and user, and the fewest and the most.
    let mut submit = |server: &mut Server, client: (i32, u32), (least, most): (u32, u32)| {
        let range = Some(ProcessorRange { least, most });
        let what = Submit { processors: range, ..Submit::plain(most, "", true) };
        says(server, &mut kept, client, ToManager::Submit(what))
    };
    assert_eq!(submit(&mut server, (5_000_001, 4711), (2, 2)), None, "there is no cap yet");
    server.set_rules(capped);
    let why = server.why_it_cannot_begin(server.queue[0].serial, 2).unwrap();
    assert!(why.contains("at most 1 together"), "{why}");
    let refused = Some(RefusedCode::NotPossible);
    assert_eq!(submit(&mut server, (5_000_002, 4711), (2, 2)), refused);
    for (client, range) in [
        ((5_000_003, 4711), (1, processors)),
        ((5_000_004, 4711), (1, 1)),
        ((5_000_005, 4712), (processors - 1, processors - 1)),
    ] {
        assert_eq!(submit(&mut server, client, range), None);
    }
    let starts: Vec<(i32, u32)> = server
        .next_starts(0)
        .iter()
        .map(|start| {
            let place = server.queue.iter().find(|place| place.id == start.id).unwrap();
            (server.connections[&place.serial].peer.pid.0, start.job.unwrap().processors)
        })
        .collect();
    assert_eq!(starts, [(5_000_003, 1), (5_000_005, processors - 1)]);
    let begins = server.next_starts(0)[0];
    let at = server.queue.iter().position(|place| place.id == begins.id).unwrap();
    let serial = server.queue.remove(at).unwrap().serial;
    begins.note(server.connections.get_mut(&serial).unwrap());
    server.connections.get_mut(&serial).unwrap().announced = true;
    assert_eq!(server.next_starts(0).len(), 1, "the cap is used up by what runs");
    server.set_rules(Rules::of(&Config::default()));
    assert_eq!(server.why_it_cannot_begin(server.queue[0].serial, 2), None);
}

#[test]
fn a_user_at_its_cap_waits_and_what_never_begins_holds_up_none_of_its_jobs() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, mut kept) = (server(dir.path(), Some(0)), Vec::new());
    if server.cpus.len() < 2 {
        platform::skip!("needs two processors for programs of two users");
        return;
    }
    let rules = |cap: u32, max: u32| {
        let text = format!(
            "[users.4711]\nprocessors = {cap}\n[classes.small]\nmax = {max}\nopen = true\n"
        );
        Rules::of(&Config::parse(&text).unwrap())
    };
    let process = |server: &Server, id: u64| {
        let place = server.queue.iter().find(|place| place.id == id).unwrap();
        server.connections[&place.serial].peer.pid.0
    };
    let starts = |server: &Server| -> Vec<i32> {
        server.next_starts(0).iter().map(|start| process(server, start.id)).collect()
    };
    let program = ToManager::Submit(Submit::plain(1, "", true));
    server.set_rules(rules(2, 2));
    for (client, what) in [
        ((5_000_001, 4711), program.clone()),
        ((5_000_002, 4711), job(2, Some("small"))),
        ((5_000_003, 4711), program.clone()),
        ((5_000_004, 4712), program),
    ] {
        assert_eq!(says(&mut server, &mut kept, client, what), None);
    }
    // The first one runs: its user's job of two waits for it, and is passed by others only.
    let at = server.queue.iter().position(|it| process(&server, it.id) == 5_000_001).unwrap();
    let serial = server.queue.remove(at).unwrap().serial;
    server.connections.get_mut(&serial).unwrap().announced = true;
    assert_eq!(starts(&server), [5_000_004]);
    // It never begins as its class is now, nor below a cap of one.
    server.set_rules(rules(2, 1));
    assert_eq!(starts(&server)[0], 5_000_003);
    server.set_rules(rules(1, 2));
    assert_eq!(starts(&server), [5_000_004], "the cap is used up");
    // A cap above what there is changes nothing.
    server.set_rules(rules(u32::MAX, 2));
    let capped = starts(&server);
    server.set_rules(Rules::of(&Config::default()));
    assert_eq!(starts(&server), capped);
}

#[test]
fn a_job_that_fits_no_more_says_why_it_waits_and_fits_again_when_its_class_is_larger() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, mut kept) = (server(dir.path(), Some(0)), Vec::new());
    let processors = u32::try_from(server.cpus.len()).unwrap();
    if processors < 2 {
        platform::skip!("needs two processors for a job of two");
        return;
    }
    let rules = |max: u32, reserve: u32| {
        let text = format!(
            "[classes.wide]\nmax = {max}\nopen = true\n\
             [classes.kept]\nmin = {reserve}\nreserve = true\n"
        );
        Rules::of(&Config::parse(&text).unwrap())
    };
    server.set_rules(rules(2, 0));
    for (pid, class) in [(5_000_001, Some("wide")), (5_000_002, None)] {
        assert_eq!(says(&mut server, &mut kept, (pid, 7), job(2, class)), None);
    }
    let asker = server.queue[0].serial;
    let why = |server: &mut Server| -> Vec<Option<String>> {
        let said = server.queue_report(asker, 0).into_iter();
        let places = said.filter_map(|it| match it {
            arena::message::FromManager::Waiting { places } => Some(places),
            _ => None,
        });
        places.flatten().map(|it| it.never_begins).collect()
    };
    assert_eq!(why(&mut server), [None, None]);
    server.set_rules(rules(1, 0));
    let of_class = "it has at most 1, for the programs of class wide have so many together \
                    (its max)";
    assert_eq!(why(&mut server), [Some(of_class.to_owned()), None]);
    server.set_rules(rules(2, processors));
    let reserve = "it has at most 1, for other classes keep the rest (reserve)".to_owned();
    assert_eq!(why(&mut server), [Some(reserve.clone()), Some(reserve)]);
    server.set_rules(rules(2, 0));
    assert_eq!(why(&mut server), [None, None]);
    let all_but_one: Vec<String> =
        server.cpus.iter().skip(1).map(|cpu| cpu.0.to_string()).collect();
    server.change_drained(&all_but_one.join(","), true).unwrap();
    let drained = "only 1 are not drained (cpumgr undrain)".to_owned();
    assert_eq!(why(&mut server), [Some(drained.clone()), Some(drained)]);
    server.change_drained(&all_but_one.join(","), false).unwrap();
    assert_eq!(why(&mut server), [None, None]);
}

#[test]
fn a_plan_keeps_for_classes_what_the_policy_keeps_in_its_order_and_beside_masters() {
    // In their order in a file `zeta` is before `alpha`, as in the policy's, not by name.
    let site = "[classes.zeta]\nmin = 2\nreserve = true\n[classes.alpha]\nmin = 2\n\
                reserve = true\n[classes.small]\n";
    let rules = Rules::of(&Config::parse(site).unwrap());
    let table = &rules.class_table().classes;
    let kept = |processors: u32, classes: &[Option<&str>]| {
        let mut places = ClassPlaces::new(table, processors);
        let at_rest = ["zeta", "alpha"].map(|it| places.of(Some(it.to_owned())).unwrap());
        let ever = at_rest.map(|at| places.parts[at].kept);
        let run = |class: &Option<&str>| {
            let class = places.of(class.map(str::to_owned));
            Running { processors: 1, until: None, class }
        };
        let running: Vec<Running> = classes.iter().map(run).collect();
        let counted = places.beside(running, processors).len();
        (ever, at_rest.map(|at| places.parts[at].kept_now), counted)
    };
    assert_eq!(kept(3, &[]), ([2, 1], [2, 1], 0));
    for (processors, running) in
        [(4, vec![None]), (4, vec![None, Some("small")]), (6, vec![Some("small"); 3])]
    {
        let app = |(id, class): (u64, &Option<&str>)| AppView {
            class: class.map(AppView::number_of),
            ..AppView::new(AppId(id), 9)
        };
        let apps: Vec<AppView> = (1..).zip(&running).map(app).collect();
        let mut policy = policies::Classes::new(table, || Box::new(policies::Equip::new()));
        let decision = policies::Policy::decide(
            &mut policy,
            &policies::Snapshot {
                now: 0,
                quantum: 1,
                processors,
                apps: &apps,
                cause: policies::Cause::Arrival,
                master_always: true,
            },
        );
        let (_, now, _) = kept(processors, &running);
        assert_eq!(now.iter().sum::<u32>(), decision.reserved, "{running:?}");
    }
    // Each of the two classes has a processor, and both programs count; a job of `zeta` has
    // all that is kept for it.
    assert_eq!(kept(4, &[None, Some("small")]), ([2, 2], [2, 0], 2));
    // More classes than processors: nothing is kept.
    assert_eq!(kept(1, &[None, Some("small")]).1, [0, 0]);
}
