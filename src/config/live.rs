//! The configuration in force, which a reload (SIGHUP) replaces while it is read.

use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Config;

/// Configurations that one process can have one after the other. Only a reload that changes a setting adds one.
const MAX_CONFIGS: usize = 256;

/// The configuration in force. It is read like a [`Config`]; two reads may see different ones.
///
/// Former configurations are kept, so that a reference stays valid across an await without a lock.
pub struct LiveConfig {
    configs: Box<[OnceLock<Box<Config>>]>,
    current: AtomicUsize,
}

/// The configuration was changed too often since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the configuration was changed {} times since the start: restart the server to apply more changes", MAX_CONFIGS - 1)]
pub struct TooManyChanges;

impl LiveConfig {
    pub fn new(config: Config) -> Self {
        let configs: Box<[_]> = (0..MAX_CONFIGS).map(|_| OnceLock::new()).collect();
        let _ = configs[0].set(Box::new(config));
        Self { configs, current: AtomicUsize::new(0) }
    }

    /// Puts another configuration in force.
    ///
    /// # Errors
    /// [`TooManyChanges`]: the former one stays in force.
    pub fn replace(&self, config: Config) -> Result<(), TooManyChanges> {
        let mut config = Box::new(config);
        for number in self.current.load(Ordering::Acquire) + 1..MAX_CONFIGS {
            match self.configs[number].set(config) {
                Ok(()) => {
                    self.current.fetch_max(number, Ordering::AcqRel);
                    return Ok(());
                }
                Err(refused) => config = refused,
            }
        }
        Err(TooManyChanges)
    }
}

impl Deref for LiveConfig {
    type Target = Config;

    fn deref(&self) -> &Config {
        let current = self.current.load(Ordering::Acquire);
        self.configs[current].get().expect("a configuration is stored before it becomes the current one")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_outlives_a_change_and_changes_are_bounded() {
        let live = LiveConfig::new(Config::default());
        let before = &live.limits;
        let with_body_bytes = |body_bytes| {
            let mut config = Config::default();
            config.limits.body_bytes = body_bytes;
            config
        };
        for body_bytes in 1..MAX_CONFIGS as u64 {
            live.replace(with_body_bytes(body_bytes)).unwrap();
            assert_eq!(live.limits.body_bytes, body_bytes);
        }
        assert_eq!(live.replace(with_body_bytes(0)), Err(TooManyChanges));
        assert_eq!((live.limits.body_bytes, before.body_bytes), (MAX_CONFIGS as u64 - 1, 64 * 1024));
    }
}
