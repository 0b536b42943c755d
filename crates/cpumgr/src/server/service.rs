//! What the service manager is told of the scheduler: that it is ready, lives, reads anew, ends, and
//! what it does.

use std::os::fd::{AsFd, OwnedFd};

use platform::clock::monotonic_ns;

use super::{Server, nanos};
use crate::service::notify::{Notifier, status_line};
use crate::service::passed::STORED;

/// A status is told this often, at most.
const STATUS_PAUSE: u64 = 1_000_000_000;

/// The service manager, as the scheduler sees it.
#[derive(Debug)]
pub(super) struct Service {
    notifier: Notifier,
    /// Between two signs of life; `None`: it waits for none.
    pause: Option<u64>,
    next_sign: Option<u64>,
    /// What it was told last.
    told: String,
    /// Another status is told no sooner.
    rests_until: u64,
    /// There is another one.
    has_news: bool,
}

impl Service {
    pub(super) fn new(notifier: Notifier) -> Self {
        // Half of what it waits for: one sign may come late.
        let pause = notifier.watchdog().map(|time| (nanos(time) / 2).max(1));
        Self {
            notifier,
            pause,
            next_sign: pause.map(|_| 0),
            told: String::new(),
            rests_until: 0,
            has_news: false,
        }
    }

    /// When it is to be told something next.
    pub(super) fn next(&self) -> Option<u64> {
        let status = self.has_news.then_some(self.rests_until);
        self.next_sign.into_iter().chain(status).min()
    }
}

impl Server {
    /// The scheduler has begun. `listener` is for the store, where the next manager of this service
    /// finds it.
    pub(crate) fn say_ready(&mut self, listener: Option<&OwnedFd>) {
        let text = self.summary();
        let Some(service) = &mut self.service else { return };
        service.notifier.say(&format!("READY=1\n{}", status_line(&text)));
        service.told = text;
        if let Some(listener) = listener {
            service.notifier.store(listener.as_fd(), STORED);
        }
    }

    /// It reads its configuration.
    pub(super) fn say_reloading(&self) {
        if let Some(service) = &self.service {
            let time = monotonic_ns() / 1000;
            service.notifier.say(&format!("RELOADING=1\nMONOTONIC_USEC={time}\n"));
        }
    }

    /// It has read it; `fault`: and cannot use it.
    pub(super) fn say_reloaded(&mut self, fault: Option<&str>) {
        let text = match fault {
            Some(fault) => format!("the configuration stays what it was: {fault}"),
            None => self.summary(),
        };
        let Some(service) = &mut self.service else { return };
        service.notifier.say(&format!("READY=1\n{}", status_line(&text)));
        service.told = text;
        // A fault stays to be read until something else changes.
        service.has_news = false;
    }

    /// It ends, or begins anew in the same process.
    pub(super) fn say_over(&self, begins_anew: bool) {
        match &self.service {
            Some(_) if begins_anew => self.say_reloading(),
            Some(service) => service.notifier.say("STOPPING=1\nSTATUS=the manager ends\n"),
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
        if let Some(pause) = service.pause
            && service.next_sign.is_some_and(|time| time <= now)
        {
            service.notifier.say("WATCHDOG=1\n");
            service.next_sign = Some(now + pause);
        }
        if let Some(text) = text
            && text != service.told
        {
            service.told = text;
            service.has_news = true;
        }
        if service.has_news && service.rests_until <= now {
            service.notifier.status(&service.told);
            service.rests_until = now + STATUS_PAUSE;
            service.has_news = false;
        }
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
