//! Notifications to event streams: bounded, and a slow listener is never waited for.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::broadcast;

use crate::domain::channel::Channel;
use crate::domain::channel_state::ChannelState;
use crate::domain::guide::Airing;
use crate::domain::progress::ProgressRecord;
use crate::domain::recording::RecordingState;

/// Events a listener may lag before it is notified that it missed some.
const MAX_LAG: usize = 256;

/// Events kept for listeners that reconnect.
const MAX_RECENT: usize = 256;

/// Listeners at once, of one user and in all.
const MAX_LISTENERS_PER_USER: usize = 16;
const MAX_LISTENERS: usize = 512;

/// An event.
#[derive(Clone, Debug)]
pub struct ServerEvent {
    /// Grows by one with every event since the start of the server.
    pub id: u64,
    /// The user it concerns; None for all users.
    pub user_id: Option<String>,
    pub content: EventContent,
}

/// The content of an event.
#[derive(Clone, Debug)]
pub enum EventContent {
    /// A progress record changed or was reset.
    Progress(Box<ProgressRecord>),
    /// Files were added, removed or changed in these folders.
    Library { folders: Vec<String> },
    /// Items of the catalogue were added, removed or changed; None if there are too many to name.
    Items { item_ids: Option<Vec<String>> },
    /// A channel's viewer count or state changed.
    Channel { id: u32, state: ChannelState, viewers: usize },
    /// An entry of a channel's guide began.
    Programme { channel: Arc<Channel>, entry: Airing },
    /// A recording was scheduled, began or ended.
    Recording { id: String, title: String, state: RecordingState },
}

/// Publishes events to listeners.
pub struct Events {
    /// Names this run of the server; event ids of other runs are not comparable.
    pub run_id: String,
    state: Mutex<EventState>,
}

struct EventState {
    /// None once the server shuts down.
    sender: Option<broadcast::Sender<Arc<ServerEvent>>>,
    last_id: u64,
    recent: VecDeque<Arc<ServerEvent>>,
    listeners: HashMap<String, usize>,
}

/// A subscription of one user.
pub struct Listener {
    pub user_id: String,
    /// Earlier events that the listener has not received.
    pub missed: VecDeque<Arc<ServerEvent>>,
    /// Whether more events were missed than are kept.
    pub has_gap: bool,
    pub receiver: broadcast::Receiver<Arc<ServerEvent>>,
    events: Arc<Events>,
}

impl Events {
    /// `run_id` names this run of the server.
    pub fn new(run_id: String) -> Arc<Self> {
        let sender = Some(broadcast::channel(MAX_LAG).0);
        let state = EventState { sender, last_id: 0, recent: VecDeque::new(), listeners: HashMap::new() };
        Arc::new(Self { run_id, state: Mutex::new(state) })
    }

    /// Publishes an event to `user_id`, or to all users.
    pub fn publish(&self, user_id: Option<&str>, content: EventContent) {
        let mut state = self.lock_state();
        state.last_id += 1;
        let event = Arc::new(ServerEvent { id: state.last_id, user_id: user_id.map(str::to_owned), content });
        if state.recent.len() == MAX_RECENT {
            state.recent.pop_front();
        }
        state.recent.push_back(event.clone());
        // Sent under the lock, so that no listener receives it twice or misses it. There may be no listener.
        let _ = state.sender.as_ref().map(|sender| sender.send(event));
    }

    pub fn has_listeners(&self) -> bool {
        !self.lock_state().listeners.is_empty()
    }

    /// Ends every listener, because the server shuts down.
    pub fn close(&self) {
        self.lock_state().sender = None;
    }

    /// Subscribes as a user, to events after `after` of this run, or to new ones. None when there are too many listeners,
    /// and when the server shuts down.
    pub fn subscribe(self: &Arc<Self>, user_id: &str, after: Option<u64>) -> Option<Listener> {
        let mut state = self.lock_state();
        let receiver = state.sender.as_ref()?.subscribe();
        let total: usize = state.listeners.values().sum();
        if total >= MAX_LISTENERS || state.listeners.get(user_id).is_some_and(|count| *count >= MAX_LISTENERS_PER_USER)
        {
            return None;
        }
        *state.listeners.entry(user_id.to_owned()).or_default() += 1;
        let oldest = state.recent.front().map_or(state.last_id + 1, |event| event.id);
        let after = after.unwrap_or(state.last_id);
        let missed = state.recent.iter().filter(|event| event.id > after && event.is_for(user_id)).cloned().collect();
        Some(Listener {
            user_id: user_id.to_owned(),
            missed,
            has_gap: after > state.last_id || after + 1 < oldest,
            receiver,
            events: self.clone(),
        })
    }

    fn lock_state(&self) -> std::sync::MutexGuard<'_, EventState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServerEvent {
    pub fn is_for(&self, user_id: &str) -> bool {
        self.user_id.as_deref().is_none_or(|recipient| recipient == user_id)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut state = self.events.lock_state();
        if let Some(count) = state.listeners.get_mut(&self.user_id) {
            *count -= 1;
            if *count == 0 {
                state.listeners.remove(&self.user_id);
            }
        }
    }
}
