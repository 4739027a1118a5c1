//! Notifications to event streams: bounded, and a slow listener is never waited for.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::broadcast;

use crate::domain::channel::Channel;
use crate::domain::progress::ProgressRecord;
use crate::domain::recording::RecordingState as RecordingState;
use crate::domain::schedule::Programme;
use crate::service::onair::State;

/// Events a listener may lag before it is notified that it missed some.
const BEHIND: usize = 256;

/// Events kept for listeners that reconnect.
const KEPT: usize = 256;

/// Listeners at once, of one user and in all.
const LISTENERS_PER_USER: usize = 16;
const LISTENERS: usize = 512;

/// An event.
#[derive(Clone, Debug)]
pub struct Event {
    /// Grows by one with every event since the start of the server.
    pub id: u64,
    /// The user it concerns; None for all users.
    pub user_id: Option<String>,
    pub what: What,
}

/// The content of an event.
#[derive(Clone, Debug)]
pub enum What {
    /// A progress record changed or was reset.
    Progress(Box<ProgressRecord>),
    /// Files were added, removed or changed in these folders.
    Library { folders: Vec<String> },
    /// A channel's viewer count or state changed.
    Channel { id: u32, state: State, viewers: usize },
    /// An entry of a channel's guide began.
    Programme { channel: Arc<Channel>, entry: Programme },
    /// A recording was scheduled, began or ended.
    Recording { id: String, title: String, state: RecordingState },
}

/// Publishes events to listeners.
pub struct Events {
    /// Names this run of the server; event ids of other runs are not comparable.
    pub run: String,
    state: Mutex<Told>,
}

struct Told {
    /// None once the server shuts down.
    told: Option<broadcast::Sender<Arc<Event>>>,
    last: u64,
    kept: VecDeque<Arc<Event>>,
    listeners: HashMap<String, usize>,
}

/// A subscription of one user.
pub struct Listener {
    pub user_id: String,
    /// Earlier events that the listener has not received.
    pub missed: VecDeque<Arc<Event>>,
    /// Whether more events were missed than are kept.
    pub gap: bool,
    pub receiver: broadcast::Receiver<Arc<Event>>,
    events: Arc<Events>,
}

impl Events {
    /// `run` names this run of the server.
    pub fn new(run: String) -> Arc<Self> {
        let told = Some(broadcast::channel(BEHIND).0);
        let state = Told { told, last: 0, kept: VecDeque::new(), listeners: HashMap::new() };
        Arc::new(Self { run, state: Mutex::new(state) })
    }

    /// Publishes an event to `user_id`, or to all users.
    pub fn tell(&self, user_id: Option<&str>, what: What) {
        let mut state = self.state();
        state.last += 1;
        let event = Arc::new(Event { id: state.last, user_id: user_id.map(str::to_owned), what });
        if state.kept.len() == KEPT {
            state.kept.pop_front();
        }
        state.kept.push_back(event.clone());
        // Sent under the lock, so that no listener receives it twice or misses it. There may be no listener.
        let _ = state.told.as_ref().map(|told| told.send(event));
    }

    /// Whether there are listeners.
    pub fn is_heard(&self) -> bool {
        !self.state().listeners.is_empty()
    }

    /// Ends every listener, because the server shuts down.
    pub fn close(&self) {
        self.state().told = None;
    }

    /// Subscribes as a user, to events after `after` of this run, or to new ones. None when there are too many listeners,
    /// and when the server shuts down.
    pub fn listen(self: &Arc<Self>, user_id: &str, after: Option<u64>) -> Option<Listener> {
        let mut state = self.state();
        let receiver = state.told.as_ref()?.subscribe();
        let all: usize = state.listeners.values().sum();
        if all >= LISTENERS || state.listeners.get(user_id).is_some_and(|theirs| *theirs >= LISTENERS_PER_USER) {
            return None;
        }
        *state.listeners.entry(user_id.to_owned()).or_default() += 1;
        let oldest = state.kept.front().map_or(state.last + 1, |event| event.id);
        let after = after.unwrap_or(state.last);
        let missed = state.kept.iter().filter(|event| event.id > after && event.is_for(user_id)).cloned().collect();
        Some(Listener {
            user_id: user_id.to_owned(),
            missed,
            gap: after > state.last || after + 1 < oldest,
            receiver,
            events: self.clone(),
        })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, Told> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Event {
    pub fn is_for(&self, user_id: &str) -> bool {
        self.user_id.as_deref().is_none_or(|whom| whom == user_id)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut state = self.events.state();
        if let Some(theirs) = state.listeners.get_mut(&self.user_id) {
            *theirs -= 1;
            if *theirs == 0 {
                state.listeners.remove(&self.user_id);
            }
        }
    }
}
