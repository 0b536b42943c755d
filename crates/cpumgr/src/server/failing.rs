//! Policies that panic, at each call into them and at several turns: each program keeps what the
//! books say, and the manager goes on.

use std::collections::{BTreeMap, BTreeSet};

use arena::message::{Control, FromManager, Register, Submit, ToManager};
use platform::affinity::{CpuId, CpuSet};
use platform::event::Doorbell;
use platform::process::{Peer, Pid};
use tokio::sync::mpsc;

use super::model::{Masks, Process, View, setup};
use super::*;
use crate::api::{Answer, Call, Mailbox};
use crate::guarded::tests::{CALLS, Panics};

const QUANTUM: u64 = 20_000_000;

/// A client of the test.
struct Client {
    serial: u64,
    answers: mpsc::Receiver<Answer>,
    view: Option<View>,
}

struct Scene {
    server: Server,
    now: u64,
    clients: Vec<Client>,
}

impl Scene {
    fn connect(&mut self, pid: Pid) -> usize {
        let (mailbox, answers) = Mailbox::with_receiver();
        let serial = self.server.serials.next();
        let pidfd = OwnedFd::from(Doorbell::new().unwrap());
        let peer = Peer { pid, uid: nix::unistd::geteuid().as_raw(), gid: 0 };
        self.server.called(
            serial,
            Call::Opened { peer, pidfd, mailbox, of_admins: None },
            self.now,
        );
        self.clients.push(Client { serial, answers, view: None });
        self.clients.len() - 1
    }

    /// A client says this, and its answer.
    fn say(&mut self, client: usize, what: ToManager) -> Answer {
        self.server.called(self.clients[client].serial, Call::Said(what), self.now);
        self.pass(0);
        self.clients[client].answers.try_recv().unwrap()
    }

    fn pass(&mut self, later: u64) {
        self.now += later;
        self.server.stirred = true;
        assert_eq!(self.server.pass(&[], self.now).unwrap(), None);
        self.check();
    }

    fn register(&mut self, process: &Process) -> usize {
        let client = self.connect(process.pid());
        let register = Register {
            layout: arena::header::VERSION,
            max_processors: 3,
            request: 3,
            fixed_team: false,
            broker: false,
            library: String::new(),
            held: None,
            within: None,
        };
        let Answer::Areas(areas) = self.say(client, ToManager::Register(register)) else {
            panic!("not taken in")
        };
        let view = View::new(*areas);
        view.up().vps[1].set_tid(process.second.0.unsigned_abs());
        self.clients[client].view = Some(view);
        self.check();
        client
    }

    fn rings(&mut self, client: usize, say: impl FnOnce(&View)) {
        say(self.clients[client].view.as_ref().unwrap());
        self.server.rung(self.clients[client].serial, self.now);
        // Slowly enough to be heard each time.
        self.pass(QUANTUM / 4);
    }

    /// Programs read what the books say, each holds something, and none holds what another one
    /// does.
    fn check(&self) {
        let mut owned = BTreeSet::new();
        for client in
            self.clients.iter().filter(|it| self.server.connections.contains_key(&it.serial))
        {
            let Some(view) = &client.view else { continue };
            let holding = self.server.ledger.holding(AppId(client.serial)).unwrap();
            let (grant, cpus) = view.down().grant.read_with_cpus();
            let held: CpuSet = holding.cpus.iter().copied().map(CpuId).collect();
            assert!(!held.is_empty());
            assert_eq!(
                (grant.processors, grant.shared, cpus),
                (holding.number(), holding.shared, held)
            );
            assert!(
                holding.shared || holding.cpus.iter().all(|cpu| owned.insert(*cpu)),
                "a processor has two owners"
            );
        }
    }
}

/// All that a manager has to do with a policy, two programs and one in the queue.
fn play(call: &'static str, nth: u32, processes: &[Process]) {
    let dir = tempfile::tempdir().unwrap();
    let masks = Masks(std::sync::Arc::default());
    let books = model::ledger(Panics::at(call, nth));
    let setup = Setup { ledger: books, ..setup(dir.path(), Box::new(masks.clone())) };
    let server = Server::with_api(setup, |_, _, _| Ok(Api::without_thread(1)?.0)).unwrap();
    let mut scene = Scene { now: server.started, server, clients: Vec::new() };
    let tool = scene.connect(processes[2].pid());
    let ask = |scene: &mut Scene| match scene.say(tool, ToManager::Status) {
        Answer::Messages(messages) => match &messages[0] {
            FromManager::Status(status) => status.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    let one = scene.register(&processes[0]);
    for _ in 0..4 {
        let two = scene.register(&processes[1]);
        scene.pass(QUANTUM);
        scene.rings(one, |view| assert!(view.up().request.ask(1)));
        scene.rings(one, |view| assert!(view.up().request.ask(3)));
        scene.pass(QUANTUM);
        // In the end each has one or more, and the other one waits for what is given back.
        for client in [one, two] {
            scene.rings(client, |view| {
                let cpus = view.down().grant.read_with_cpus().1;
                if cpus.len() > 1 {
                    view.up().released.add(cpus.last().unwrap());
                }
            });
            scene.rings(client, |view| {
                view.up().released.clear();
            });
        }
        ask(&mut scene);
        let waits = scene.connect(processes[3].pid());
        let submit = ToManager::Submit(Submit::plain(1, "later", false));
        scene.say(waits, submit);
        scene.pass(QUANTUM);
        let (waits, two) = (scene.clients[waits].serial, scene.clients[two].serial);
        scene.server.process_ended(waits);
        scene.server.process_ended(two);
        scene.pass(1_000);
    }
    // Whatever was set stays so, or is refused: nothing else.
    let name = |name: Option<&str>, settings: &[(&str, &str)]| {
        let text = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Control::Policy {
            name: name.map(str::to_owned),
            settings: settings.iter().map(text).collect::<BTreeMap<_, _>>(),
        }
    };
    let status = ask(&mut scene);
    // `configure` is for policies of the registry, and whether a release asks the policy depends on
    // what each program holds: both are tested where they are guarded.
    if !["configure", "drop", "release"].contains(&call) {
        assert_eq!(
            status.policy_failure.is_some(),
            call != "name" || nth == 1,
            "{call} {nth}: {status:?}"
        );
    }
    // The next manager tries the policy that was asked for.
    let asked_for = if call == "name" && nth == 1 { "a policy without a name" } else { "panics" };
    let (kept, handed) = (scene.server.settings().policy, scene.server.in_force().policy);
    assert_eq!((kept.as_str(), handed.as_str()), (asked_for, asked_for), "{call} {nth}");
    assert_eq!(status.policy, if status.policy_failure.is_some() { "equip" } else { "panics" });
    // Another one takes over, and no report mentions what was.
    let control = |what| ToManager::Control(what);
    let done = scene.say(tool, control(name(Some("dss-ts"), &[])));
    assert!(
        matches!(&done, Answer::Messages(it) if it[..] == [FromManager::Done]),
        "{call} {nth}: {done:?}"
    );
    let status = ask(&mut scene);
    assert_eq!((status.policy.as_str(), status.policy_failure), ("dss-ts", None));
    assert!(scene.server.ledger.holding(AppId(scene.clients[one].serial)).is_some());
    scene.server.end(&Ended::Signal);
    assert!(masks.now().values().all(|mask| *mask == Masks::all()), "a mask was not put back");
}

#[test]
fn what_a_user_owes_for_looks_does_not_mute_its_programs() {
    let process = std::sync::Arc::new(Process::start());
    // The seam of the model wants its runtime, as below.
    let play = move || {
        let dir = tempfile::tempdir().unwrap();
        let books = model::ledger(policies::Registry::with_builtin().create("equip").unwrap());
        let masks = Masks(std::sync::Arc::default());
        let setup = Setup { ledger: books, ..setup(dir.path(), Box::new(masks)) };
        let server = Server::with_api(setup, |_, _, _| Ok(Api::without_thread(1)?.0)).unwrap();
        let mut scene = Scene { now: server.started, server, clients: Vec::new() };
        let one = scene.register(&process);
        let uid = nix::unistd::geteuid().as_raw();
        scene.server.looks.charge(uid, 1 << 20, scene.now);
        scene.rings(one, |view| assert!(view.up().request.ask(2)));
        assert!(!scene.server.looks.is_free(uid, scene.now), "it owes");
        assert_eq!(scene.server.ledger.request(AppId(scene.clients[one].serial)), Some(2));
        scene.server.end(&Ended::Signal);
    };
    once(play);
}

/// Runs it as a thread of the model, once, with room for a panic's report.
fn once(play: impl Fn() + Send + Sync + 'static) {
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    let scheduler = shuttle::scheduler::RandomScheduler::new(1);
    shuttle::Runner::new(scheduler, config).run(play);
}

#[test]
fn a_policy_that_panics_changes_nothing_but_the_deciding_policy() {
    let processes: std::sync::Arc<Vec<Process>> =
        std::sync::Arc::new((0..4).map(|_| Process::start()).collect());
    // The seam of the model wants its runtime, though no other thread runs here.
    for call in CALLS {
        for nth in 1..=3 {
            let processes = std::sync::Arc::clone(&processes);
            once(move || play(call, nth, &processes));
        }
    }
}
