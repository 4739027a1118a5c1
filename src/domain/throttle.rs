//! Rate limits as token buckets: how often an action may be tried. Time is an argument.

use std::collections::HashMap;

/// Maximum number of buckets; beyond it the least recently used one is evicted.
const MAX_BUCKETS: usize = 10_000;

/// Rate limits attempts by key; each key has its own bucket.
#[derive(Debug)]
pub struct RateLimiter {
    per_minute: u32,
    buckets: HashMap<String, Bucket>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    updated_ms: i64,
}

impl RateLimiter {
    /// Allows `per_minute` attempts at once, refilled evenly over a minute.
    pub fn new(per_minute: u32) -> Self {
        Self { per_minute: per_minute.max(1), buckets: HashMap::new() }
    }

    /// Changes how many attempts a minute are allowed. A bucket that has more loses the rest.
    pub fn set_rate(&mut self, per_minute: u32) {
        self.per_minute = per_minute.max(1);
    }

    /// Takes an attempt from every key, or from none. The error is in how many whole seconds every key has one again.
    pub fn take(&mut self, keys: &[String], now_ms: i64) -> Result<(), u32> {
        for key in keys {
            // If the clock was set back, the bucket fills from now on, not from the time it was last used.
            if let Some(bucket) = self.buckets.get_mut(key) {
                bucket.updated_ms = bucket.updated_ms.min(now_ms);
            }
        }
        let wait = keys.iter().map(|key| self.wait_ms(key, now_ms)).max().unwrap_or(0);
        if wait > 0 {
            return Err(u32::try_from((wait + 999) / 1000).unwrap_or(u32::MAX));
        }
        for key in keys {
            let tokens = self.available_tokens(key, now_ms) - 1.0;
            self.make_room(key, now_ms);
            self.buckets.insert(key.clone(), Bucket { tokens, updated_ms: now_ms });
        }
        Ok(())
    }

    /// Returns an attempt, because it succeeded.
    pub fn refund(&mut self, keys: &[String]) {
        for key in keys {
            if let Some(bucket) = self.buckets.get_mut(key) {
                bucket.tokens = (bucket.tokens + 1.0).min(f64::from(self.per_minute));
            }
        }
    }

    fn available_tokens(&self, key: &str, now_ms: i64) -> f64 {
        let capacity = f64::from(self.per_minute);
        let Some(bucket) = self.buckets.get(key) else { return capacity };
        // A clock set back neither adds nor removes tokens.
        let elapsed = (now_ms - bucket.updated_ms).max(0) as f64;
        (bucket.tokens + elapsed * capacity / 60_000.0).min(capacity)
    }

    fn wait_ms(&self, key: &str, now_ms: i64) -> i64 {
        let missing = 1.0 - self.available_tokens(key, now_ms);
        if missing <= 1e-9 { 0 } else { (missing * 60_000.0 / f64::from(self.per_minute)).ceil() as i64 }
    }

    fn make_room(&mut self, key: &str, now_ms: i64) {
        if self.buckets.len() < MAX_BUCKETS || self.buckets.contains_key(key) {
            return;
        }
        // Full buckets need no entry; after a minute without an attempt every bucket is full.
        self.buckets.retain(|_, bucket| now_ms - bucket.updated_ms < 60_000);
        if self.buckets.len() >= MAX_BUCKETS
            && let Some(oldest) =
                self.buckets.iter().min_by_key(|(_, bucket)| bucket.updated_ms).map(|(key, _)| key.clone())
        {
            self.buckets.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(of: &[&str]) -> Vec<String> {
        of.iter().map(|key| (*key).to_owned()).collect()
    }

    #[test]
    fn five_tries_then_one_each_twelve_seconds_and_never_a_lock_out() {
        let mut throttle = RateLimiter::new(5);
        let key = keys(&["a"]);
        for _ in 0..5 {
            assert_eq!(throttle.take(&key, 0), Ok(()));
        }
        assert_eq!(throttle.take(&key, 0), Err(12));
        assert_eq!(throttle.take(&key, 11_999), Err(1));
        assert_eq!(throttle.take(&key, 12_000), Ok(()));
        assert_eq!(throttle.take(&key, 12_000), Err(12));
        assert_eq!(throttle.take(&keys(&["b"]), 12_000), Ok(()));
        assert_eq!(throttle.take(&key, 3_600_000), Ok(()));
    }

    #[test]
    fn a_refused_try_costs_nothing_and_a_good_one_is_given_back() {
        let mut throttle = RateLimiter::new(1);
        assert_eq!(throttle.take(&keys(&["address"]), 0), Ok(()));
        assert_eq!(throttle.take(&keys(&["address", "account"]), 0), Err(60));
        assert_eq!(throttle.take(&keys(&["account"]), 0), Ok(()));
        throttle.refund(&keys(&["account"]));
        assert_eq!(throttle.take(&keys(&["account"]), 0), Ok(()));
        assert_eq!(throttle.take(&keys(&["account"]), -5_000), Err(60), "a clock set back grants nothing");
        assert_eq!(throttle.take(&keys(&["account"]), 55_000), Ok(()), "and does not extend the wait");
    }

    #[test]
    fn the_table_is_bounded() {
        let mut throttle = RateLimiter::new(5);
        for n in 0..MAX_BUCKETS as i64 + 500 {
            throttle.take(&[format!("{n}")], n / 100).unwrap();
        }
        assert_eq!(throttle.buckets.len(), MAX_BUCKETS);
    }
}
