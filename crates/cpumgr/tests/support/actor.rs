//! What a program of the tests does at each command.

use std::ffi::OsString;
use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use arena::client::{Client, Hello};
use arena::domain::Domain;
use arena::header::VERSION;
use platform::affinity::{CpuId, CpuSet, Tid, current_tid};
use platform::clock::monotonic_ns;

use super::crew::{self, Crew};
use super::program::PROGRAM_SOCKET;
use super::{PATIENCE, connection, register_packet, reuse, scribble, streams, times};

/// The step, as an index of `arena::hook::ALL`, at which this process is killed.
static DIES_AT: AtomicU32 = AtomicU32::new(u32::MAX);

/// The program's side of [`Program`](super::Program); does nothing in the test process itself.
pub(crate) fn act_as_a_program() {
    let Some(socket) = std::env::var_os(PROGRAM_SOCKET) else {
        return;
    };
    let socket = if socket.is_empty() { std::env::var_os("NANOS_CPUMGR").unwrap() } else { socket };
    let mut actor = Actor { socket, client: None, domain: None, crew: Crew::default() };
    for line in std::io::stdin().lock().lines() {
        let answer = actor.obey(&Words(line.unwrap().split(' ').collect()));
        // Past the capture of the test harness.
        let mut out = std::io::stdout().lock();
        writeln!(out, "> {answer}").unwrap();
        out.flush().unwrap();
    }
}

/// A command.
struct Words<'a>(Vec<&'a str>);

impl Words<'_> {
    fn number(&self, index: usize) -> u32 {
        self.0[index].parse().unwrap()
    }

    fn milliseconds(&self, index: usize) -> Duration {
        Duration::from_millis(self.number(index).into())
    }
}

struct Actor {
    socket: OsString,
    client: Option<Arc<Client>>,
    domain: Option<Domain>,
    crew: Crew,
}

/// Obeys some commands.
type Part = fn(&mut Actor, &Words<'_>) -> Option<String>;

impl Actor {
    fn obey(&mut self, words: &Words<'_>) -> String {
        let parts: [Part; 5] =
            [Self::speaks, Self::passes, Self::has_threads, Self::measures, Self::lives];
        let answer = parts.into_iter().find_map(|part| part(self, words));
        answer.unwrap_or_else(|| panic!("unknown command {}", words.0.join(" ")))
    }

    fn client(&self) -> &Arc<Client> {
        self.client.as_ref().unwrap()
    }

    /// The protocol.
    fn speaks(&mut self, words: &Words<'_>) -> Option<String> {
        let answer = match words.0[0] {
            "register" => self.register(words.number(1), words.number(2)),
            // The same, and the domain, while its standard streams are closed.
            "register-without-streams" => {
                let act = || format!("{} {}", self.register(1, 1), self.join());
                let (said, taken) = streams::without_streams(act);
                format!("{said} {taken:?}")
            }
            // Sends its registration, and waits for nothing.
            "send-registration" => {
                let connection = super::connection(self.socket.as_ref());
                let packet = register_packet(VERSION);
                platform::fdpass::send(&connection, &packet, &[]).unwrap();
                std::mem::forget(connection);
                "sent".into()
            }
            "grant" => {
                let client = self.client();
                let (grant, cpus) = client.grant_with_cpus();
                let (processors, dedicated, shared, epoch) =
                    (grant.processors, grant.dedicated, grant.shared, grant.epoch);
                format!("{processors} {dedicated} {shared} {epoch} {} {cpus}", client.is_alive())
            }
            "team" => self.client().grant().fixed_team.to_string(),
            "request" => {
                self.client().request(words.number(1));
                "asked".into()
            }
            // Says that a thread of another process is its virtual processor.
            "publish" => {
                self.client()
                    .publish_vp(words.number(1) as usize, Tid(words.number(2).cast_signed()));
                "published".into()
            }
            "notice" => {
                let client = self.client();
                format!("{} {} {:?}", client.asked(), client.preempted(), client.vp(1).1)
            }
            "wanted" => self.client().is_wanted().to_string(),
            "release" => {
                self.client().release(CpuId(words.number(1)));
                "released".into()
            }
            "resume" => {
                self.client().resume();
                "resumed".into()
            }
            // Reports times in ns: on P processors, and on one.
            "report" => {
                let time = |index: usize| Duration::from_nanos(words.number(index).into());
                self.client().report(words.number(1), time(2), 1, time(3));
                "reported".into()
            }
            "registrations" => self.client().registrations().to_string(),
            // Asks for 1, 2, 1, 2, ... as fast as it can.
            "flood" => {
                let (begin, time) = (Instant::now(), words.milliseconds(1));
                let mut rings = 0_u64;
                while begin.elapsed() < time {
                    self.client().request(1 + rings as u32 % 2);
                    rings += 1;
                }
                format!("flooded {rings}")
            }
            // Does without that what else is done for it: looks at the clock.
            "compute" => {
                let (begin, time) = (Instant::now(), words.milliseconds(1));
                while begin.elapsed() < time {}
                "computed".into()
            }
            // How often the manager was seen dead or silent in N milliseconds, by a look in each.
            "misses" => {
                let (begin, time) = (Instant::now(), words.milliseconds(1));
                let mut misses = 0_u64;
                while begin.elapsed() < time {
                    misses += u64::from(!self.client().is_alive());
                    std::thread::sleep(Duration::from_millis(1));
                }
                format!("missed {misses}")
            }
            "leave" => {
                self.client = None;
                "left".into()
            }
            _ => return None,
        };
        Some(answer)
    }

    fn register(&mut self, request: u32, max: u32) -> String {
        let hello = Hello {
            max_processors: max,
            request,
            fixed_team: false,
            broker: false,
            library: "test\x1b[31m".into(),
            within: None,
        };
        match Client::connect(Path::new(&self.socket), &hello, PATIENCE) {
            Ok(connected) => {
                connected.publish_vp(0, current_tid());
                self.client = Some(Arc::new(connected));
                "registered".into()
            }
            Err(error) => error.to_string(),
        }
    }

    /// The domain.
    fn passes(&mut self, words: &Words<'_>) -> Option<String> {
        let answer = match words.0[0] {
            "join" => self.join(),
            // Passes processor N to any program of the domain that wants one.
            "pass" => self
                .client()
                .pass(self.domain.as_ref().unwrap(), CpuId(words.number(1)))
                .to_string(),
            "taken" => {
                self.domain.as_ref().unwrap().take().map_or("none".into(), |cpu| cpu.0.to_string())
            }
            // Waits for a processor, and says when it ran.
            "time-taken" => {
                let domain = self.domain.as_ref().unwrap();
                while domain.wait(Duration::from_secs(1)).is_none() {}
                monotonic_ns().to_string()
            }
            // The time of a pass.
            "time-pass" => {
                let domain = self.domain.as_ref().unwrap();
                loop {
                    let begin = monotonic_ns();
                    if self.client().pass(domain, CpuId(words.number(1))) {
                        break begin.to_string();
                    }
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
            _ => return None,
        };
        Some(answer)
    }

    fn join(&mut self) -> String {
        match Domain::join(Path::new(&self.socket), PATIENCE) {
            Ok(joined) => {
                self.domain = Some(joined);
                "joined".into()
            }
            Err(error) => error.to_string(),
        }
    }

    /// Its threads.
    fn has_threads(&mut self, words: &Words<'_>) -> Option<String> {
        let answer = match words.0[0] {
            // Virtual processors 1..N that spin on the processors they have now and follow no
            // request.
            "spinners" => {
                let client = Arc::clone(self.client());
                self.crew.spin(&client, words.number(1) as usize);
                "spinning".into()
            }
            // The masks of the initial thread and of the spinners.
            "masks" => self.crew.masks(),
            // Binds spinner I as a program does that follows.
            "bind" => {
                let cpus = CpuSet::parse_list(words.0[2]).unwrap();
                let bound = self.crew.bind(words.number(1) as usize, &cpus);
                if bound { "bound".into() } else { "refused".into() }
            }
            // A second virtual processor that sleeps until there are two processors.
            "park" => {
                let client = Arc::clone(self.client());
                self.crew.park(&client);
                "parked".into()
            }
            "unparked" => format!("unparked {}", self.crew.unparked()),
            // Virtual processors 0..N that compute while they have a processor and sleep at their
            // park words otherwise; their threads.
            "gang" => crew::gang(self.client(), words.number(1) as usize),
            // Spins on this many threads, for ever.
            "hogs" => {
                (0..words.number(1)).for_each(|_| crew::hog());
                "hogging".into()
            }
            _ => return None,
        };
        Some(answer)
    }

    /// Times, in ns.
    fn measures(&mut self, words: &Words<'_>) -> Option<String> {
        let client = self.client.as_ref();
        let answer = match words.0[0] {
            // The same work of some 10 ms again and again, for N milliseconds.
            "time-work" => times::work(words.milliseconds(1)),
            // From a request to a virtual processor that sleeps for it and runs, N times, of a
            // thread that did so before.
            "time-requests" => times::requests(client.unwrap(), words.number(1), words.0[2].into()),
            // When a sleeping virtual processor ran, the last one of N with processors.
            "time-wake" => times::wake(client.unwrap(), words.number(1)),
            // When its sleeping master ran on a processor that no other program shares.
            "time-own" => times::own(client.unwrap()),
            // When the second virtual processor released its processor, N milliseconds from now, in
            // which it did so.
            "time-release" => {
                times::release(client.unwrap(), words.milliseconds(1), words.0[2].into())
            }
            // From a smaller grant to the end of virtual processor 1 on the processor that was
            // taken.
            "time-squeeze" => times::squeeze(client.unwrap()),
            _ => return None,
        };
        Some(answer)
    }

    /// Its process.
    fn lives(&mut self, words: &Words<'_>) -> Option<String> {
        let answer = match words.0[0] {
            // From now on the process is killed at this step.
            "die-at" => {
                DIES_AT.store(words.number(1), Ordering::Relaxed);
                arena::hook::set(|step| {
                    let at = DIES_AT.load(Ordering::Relaxed) as usize;
                    if arena::hook::ALL[at] == step {
                        nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).unwrap();
                    }
                });
                "going to die".into()
            }
            // Registers, then writes random bytes into its area and rings, both as fast as it can,
            // for ever.
            "scribble" => {
                scribble::begin(Path::new(&self.socket));
                "scribbling".into()
            }
            // Closes every descriptor and opens others, with or without further requests.
            "reuse" => {
                reuse::reuse(words.0[1], Arc::into_inner(self.client.take().unwrap()).unwrap())
            }
            "reuse-quietly" => reuse::reuse_quietly(
                words.0[1],
                Arc::into_inner(self.client.take().unwrap()).unwrap(),
            ),
            // Registers and ends without waiting for the answer.
            "register-and-die" => {
                let socket = connection(Path::new(&self.socket));
                platform::fdpass::send(&socket, &register_packet(VERSION), &[]).unwrap();
                std::process::exit(0);
            }
            // The name that the kernel has for this process.
            "name" => {
                std::fs::write("/proc/self/comm", "a\x1b[2Jb").unwrap();
                "named".into()
            }
            "called" => {
                std::fs::write("/proc/self/comm", words.0[1]).unwrap();
                "called".into()
            }
            "exit" => std::process::exit(words.0[1].parse().unwrap()),
            _ => return None,
        };
        Some(answer)
    }
}
