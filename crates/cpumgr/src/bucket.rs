//! A token bucket: how much of the manager one program may use.

/// Tokens that come back at a fixed rate, up to a limit.
#[derive(Clone, Debug)]
pub struct Bucket {
    tokens: u32,
    burst: u32,
    token_ns: u64,
    counted_until: u64,
}

impl Bucket {
    /// A full bucket of `burst` tokens, one of which comes back every `token_ns`.
    pub fn new(burst: u32, token_ns: u64, now: u64) -> Self {
        Self { tokens: burst, burst, token_ns: token_ns.max(1), counted_until: now }
    }

    /// Takes a token; false when there is none.
    pub fn take(&mut self, now: u64) -> bool {
        self.take_all(1, now)
    }

    /// Takes this many tokens, or none; false when there are fewer.
    pub fn take_all(&mut self, tokens: u32, now: u64) -> bool {
        self.refill(now);
        let had = self.tokens >= tokens;
        if had {
            self.tokens -= tokens;
        }
        had
    }

    /// When there will be `tokens` tokens, counting from `now`.
    pub fn time_of(&self, tokens: u32, now: u64) -> u64 {
        now + u64::from(tokens.saturating_sub(self.tokens)) * self.token_ns
    }

    fn refill(&mut self, now: u64) {
        let came = now.saturating_sub(self.counted_until) / self.token_ns;
        let room = self.burst - self.tokens;
        if came >= u64::from(room) {
            self.tokens = self.burst;
            self.counted_until = self.counted_until.max(now);
        } else {
            // Less than `room`, a u32.
            self.tokens += came as u32;
            self.counted_until += came * self.token_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_gets_the_burst_and_then_the_rate() {
        let mut bucket = Bucket::new(10, 1_000, 0);
        let taken = (0..100_000).filter(|now| bucket.take(*now)).count();
        assert_eq!(taken, 10 + 99);
    }

    #[test]
    fn rest_fills_it_again_and_no_further() {
        let mut bucket = Bucket::new(3, 10, 0);
        assert!((0..3).all(|_| bucket.take(0)) && !bucket.take(9));
        assert_eq!(bucket.time_of(2, 9), 29);
        assert_eq!((0..100).filter(|_| bucket.take(1_000)).count(), 3);
    }

    #[test]
    fn a_clock_that_stands_still_gives_nothing() {
        let mut bucket = Bucket::new(1, 10, 500);
        assert!(bucket.take(400) && !bucket.take(400));
    }
}
