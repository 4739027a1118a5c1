//! Reads that a standby answers itself: by the accounts and media folders in its copy of the state, which follows the database, and
//! from the media files.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::accounts::Accounts;
use super::background_tasks::BackgroundTasks;
use super::clock::Clock;
use super::library::Library;
use super::media_folders::MediaFolders;
use crate::config::Config;
use crate::engine::source::Roots;
use crate::error::{Error, Result};
use crate::store::{CopyChange, Store, Tree};

/// Longest time since the copy had all changes until it counts as outdated.
const MAX_AGE: Duration = Duration::from_secs(2);

/// Pause until a replica that could not be opened is opened again.
const REOPEN_INTERVAL: Duration = Duration::from_secs(30);

/// Accounts and files, for reading only.
pub struct ReadReplica {
    pub accounts: Accounts,
    pub library: Arc<Library>,
}

impl ReadReplica {
    /// # Errors
    /// A media folder of the configuration cannot be opened, or the copy cannot be read.
    fn open(config: &Config, store: &Store) -> Result<Self> {
        let roots = Roots::open(config.library_roots()).map_err(Error::internal)?.shared(config.database.is_some());
        MediaFolders::open(store.clone(), config, &roots)?;
        let accounts = Accounts::open(config, store.clone(), Clock::default())?;
        Ok(Self { accounts, library: Arc::new(Library::new(Arc::new(roots), BackgroundTasks::default())) })
    }
}

/// The replica of a standby, as long as its copy is open and current. Clones share it.
#[derive(Clone)]
pub struct CurrentReplica {
    config: Arc<Config>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The copy, while it can be read.
    store: Option<Store>,
    replica: Option<Arc<ReadReplica>>,
    /// When the copy had all changes.
    current_at: Option<Instant>,
    /// Raised by each opening, so that the result of an earlier one is dropped.
    opening: u64,
    /// When the replica is opened again after a failure.
    reopen_at: Option<Instant>,
}

impl CurrentReplica {
    pub fn new(config: Config) -> Self {
        Self { config: Arc::new(config), state: Arc::default() }
    }

    /// The replica; `None` before it is open, and when its copy has not followed the database for 2 s.
    pub fn get(&self) -> Option<Arc<ReadReplica>> {
        let state = self.lock();
        let is_current = state.current_at.is_some_and(|at| at.elapsed() < MAX_AGE);
        state.replica.clone().filter(|_| is_current)
    }

    /// Follows the copy. Does not wait for media folders, whose file systems may hang.
    pub fn follow(&self, change: CopyChange) {
        let mut state = self.lock();
        match change {
            CopyChange::Opened(store) => {
                state.store = Some(store.clone());
                self.reopen(&mut state);
            }
            CopyChange::Followed(trees) if trees.contains(&Tree::MediaFolders) => self.reopen(&mut state),
            CopyChange::Followed(trees) => {
                if has_accounts(trees) && state.replica.as_ref().is_some_and(|replica| !reload(replica)) {
                    state.replica = None;
                    state.reopen_at = Some(Instant::now() + REOPEN_INTERVAL);
                }
            }
            CopyChange::Current(at) => {
                state.current_at = Some(at);
                if state.reopen_at.is_some_and(|at| at <= Instant::now()) {
                    self.reopen(&mut state);
                }
            }
            CopyChange::Closed => *state = State { opening: state.opening + 1, ..State::default() },
        }
    }

    /// Opens the replica anew, in a thread of its own.
    fn reopen(&self, state: &mut State) {
        let Some(store) = state.store.clone() else { return };
        state.opening += 1;
        (state.replica, state.reopen_at) = (None, None);
        let (current, opening) = (self.clone(), state.opening);
        let open = move || {
            let opened = ReadReplica::open(&current.config, &store);
            let mut state = current.lock();
            if state.opening != opening {
                return;
            }
            match opened {
                // Accounts may have changed while it was opened.
                Ok(replica) if reload(&replica) => state.replica = Some(Arc::new(replica)),
                Ok(_) => state.reopen_at = Some(Instant::now() + REOPEN_INTERVAL),
                Err(error) => {
                    tracing::warn!(%error, "this standby passes requests for files on, because it cannot read them itself");
                    state.reopen_at = Some(Instant::now() + REOPEN_INTERVAL);
                }
            }
        };
        if let Err(fault) = std::thread::Builder::new().name("read-replica".into()).spawn(open) {
            tracing::warn!(%fault, "this standby cannot start a thread");
            state.reopen_at = Some(Instant::now() + REOPEN_INTERVAL);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn has_accounts(trees: &BTreeSet<Tree>) -> bool {
    [Tree::Users, Tree::Logins, Tree::Household, Tree::StreamTokens].iter().any(|tree| trees.contains(tree))
}

/// Reads the accounts again; returns whether that was possible.
fn reload(replica: &ReadReplica) -> bool {
    let reloaded = replica.accounts.reload();
    if let Err(error) = &reloaded {
        tracing::warn!(%error, "the accounts in the copy of the database cannot be read");
    }
    reloaded.is_ok()
}
