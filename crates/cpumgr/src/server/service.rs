//! What the service manager is told of the scheduler: that it is ready, lives, reads anew, ends,
//! and what it does.

use std::os::fd::{AsFd, OwnedFd};

use platform::clock::monotonic_ns;

use super::Server;
use crate::service::passed::STORED;

impl Server {
    /// The scheduler has begun. `listener` is for the store, where the next manager of this service
    /// finds it.
    pub(crate) fn say_ready(&mut self, listener: Option<&OwnedFd>) {
        let text = self.summary();
        let Some(service) = &mut self.service else { return };
        service.ready(text);
        if let Some(listener) = listener {
            service.notifier().store(listener.as_fd(), STORED);
        }
    }

    /// It reads its configuration.
    pub(super) fn say_reloading(&self) {
        if let Some(service) = &self.service {
            let time = monotonic_ns() / 1000;
            service.notifier().say(&format!("RELOADING=1\nMONOTONIC_USEC={time}\n"));
        }
    }

    /// It has read it; `fault`: and cannot use it.
    pub(super) fn say_reloaded(&mut self, fault: Option<&str>) {
        let text = self.summary();
        let Some(service) = &mut self.service else { return };
        service.set_fault(fault);
        service.ready(text);
    }

    /// It ends, or begins anew in the same process.
    pub(super) fn say_over(&self, begins_anew: bool) {
        match &self.service {
            Some(_) if begins_anew => self.say_reloading(),
            Some(service) => service.notifier().say("STOPPING=1\nSTATUS=the manager ends\n"),
            None => {}
        }
    }

    /// The end of a pass: a sign of life when it is time, and the status when it is another one.
    pub(super) fn tell_service(&mut self, now: u64) {
        if self.service.is_none() {
            return;
        }
        let text = self.stirred.then(|| self.summary());
        let Some(service) = &mut self.service else { return };
        service.lives(now);
        service.does(text, now);
    }

    /// In a line.
    fn summary(&self) -> String {
        let programs = self.programs();
        let mut users: Vec<u32> = self.owners().collect();
        users.sort_unstable();
        users.dedup();
        let (waits, queued) = (self.ledger.waiting(), self.queue.len());
        let counted = |count: usize, what: &str| match count {
            1 => format!("1 {what}"),
            count => format!("{count} {what}s"),
        };
        let mut text = format!(
            "{} of {} on processors {}, policy {}",
            counted(programs, "program"),
            counted(users.len(), "user"),
            self.cpus,
            self.ledger.policy()
        );
        if waits > 0 {
            text.push_str(&format!(", {waits} with less than they ask for"));
        }
        if queued > 0 {
            text.push_str(&format!(", {queued} in the queue"));
        }
        text
    }
}
