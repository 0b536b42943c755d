//! The service manager as the scheduler sees it: what it was told last, and when it is to be told
//! something next.

use super::notify::{Notifier, status_line};

/// A status is told this often, at most.
const STATUS_PAUSE: u64 = 1_000_000_000;

/// See the head of this file. Times are those of the monotonic clock.
#[derive(Debug)]
pub(crate) struct Told {
    notifier: Notifier,
    /// Between two signs of life; `None`: it waits for none.
    pause: Option<u64>,
    next_sign: Option<u64>,
    status: String,
    /// The configuration has this mistake, until it is read without one.
    fault: Option<String>,
    /// Another status is told no sooner.
    rests_until: u64,
    /// There is another one.
    has_news: bool,
}

impl Told {
    pub(crate) fn new(notifier: Notifier) -> Self {
        let nanos = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        // Half of what it waits for: one sign may come late.
        let pause = notifier.watchdog().map(|time| (nanos(time) / 2).max(1));
        Self {
            notifier,
            pause,
            next_sign: pause.map(|_| 0),
            status: String::new(),
            fault: None,
            rests_until: 0,
            has_news: false,
        }
    }

    /// The way to it.
    pub(crate) fn notifier(&self) -> &Notifier {
        &self.notifier
    }

    /// When it is to be told something next.
    pub(crate) fn next(&self) -> Option<u64> {
        let status = self.has_news.then_some(self.rests_until);
        self.next_sign.into_iter().chain(status).min()
    }

    /// The configuration has a mistake, or no more.
    pub(crate) fn set_fault(&mut self, fault: Option<&str>) {
        self.fault = fault.map(str::to_owned);
    }

    fn whole(&self, status: String) -> String {
        match &self.fault {
            Some(fault) => format!("{status}; the configuration stays what it was: {fault}"),
            None => status,
        }
    }

    /// It is ready, or ready again, with this status.
    pub(crate) fn ready(&mut self, status: String) {
        let status = self.whole(status);
        self.notifier.say(&format!("READY=1\n{}", status_line(&status)));
        self.status = status;
        self.has_news = false;
    }

    /// It lives, if it is time to say so.
    pub(crate) fn lives(&mut self, now: u64) {
        if let Some(pause) = self.pause
            && self.next_sign.is_some_and(|time| time <= now)
        {
            self.notifier.say("WATCHDOG=1\n");
            self.next_sign = Some(now + pause);
        }
    }

    /// The status may be another one (`Some`), and is told when it is time.
    pub(crate) fn does(&mut self, status: Option<String>, now: u64) {
        if let Some(status) = status.map(|status| self.whole(status))
            && status != self.status
        {
            self.status = status;
            self.has_news = true;
        }
        if self.has_news && self.rests_until <= now {
            self.notifier.status(&self.status);
            self.rests_until = now + STATUS_PAUSE;
            self.has_news = false;
        }
    }
}
