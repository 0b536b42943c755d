//! Processes that stand for programs, and the masks of their threads, which are the model's own.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use platform::SysResult;
use platform::affinity::{CpuSet, Tid, current_tid};
use platform::process::Pid;
use shuttle::rand::{Rng, thread_rng};

use super::{PROCESSORS, others_run};
use crate::kernel::Kernel;

/// A process that does nothing, and a thread of it besides the first.
pub(in crate::server) struct Process {
    child: Child,
    pub(in crate::server) second: Tid,
}

impl Process {
    pub(in crate::server) fn start() -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args([
                "--ignored",
                "--exact",
                "server::model::process::plays_a_process",
                "--nocapture",
            ])
            .env(PLAYS, "1");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let second = lines
            .map_while(Result::ok)
            .find_map(|line| line.split_once("tid=")?.1.trim().parse().ok());
        Self { second: Tid(second.unwrap()), child }
    }

    pub(in crate::server) fn pid(&self) -> Pid {
        Pid(self.child.id().cast_signed())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }
}

const PLAYS: &str = "CPUMGR_MODEL_PROCESS";

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn plays_a_process() {
    if std::env::var_os(PLAYS).is_none() {
        return;
    }
    std::thread::spawn(|| {
        println!("tid={}", current_tid().0);
        loop {
            std::thread::park();
        }
    });
    // Until the model ends, however it does.
    std::io::stdin().lines().for_each(drop);
}

/// Masks of threads.
#[derive(Clone, Debug)]
pub(in crate::server) struct Masks(
    pub(in crate::server) std::sync::Arc<std::sync::Mutex<BTreeMap<i32, CpuSet>>>,
);

impl Masks {
    pub(in crate::server) fn all() -> CpuSet {
        CpuSet::first_n(PROCESSORS)
    }

    pub(in crate::server) fn now(&self) -> BTreeMap<i32, CpuSet> {
        self.0.lock().unwrap().clone()
    }
}

impl Kernel for Masks {
    fn affinity(&self, tid: Tid) -> SysResult<CpuSet> {
        others_run();
        Ok(self.0.lock().unwrap().entry(tid.0).or_insert_with(Self::all).clone())
    }

    fn set_affinity(&self, tid: Tid, cpus: &CpuSet) -> SysResult<()> {
        others_run();
        self.0.lock().unwrap().insert(tid.0, cpus.clone());
        Ok(())
    }

    /// Anything: programs seem to work and to sleep in turns.
    fn ran(&self, _pid: Pid) -> SysResult<u64> {
        Ok(thread_rng().gen_range(0..3) * 1_000_000_000)
    }
}
