//! The states of a playback session and the effect of each event.

named_values! {
    /// The state of a session. `Failed` and `Stopped` are final.
    pub enum SessionState {
        /// The segment at the start position does not exist yet.
        Starting = "starting",
        /// Playable; a run is making segments for it.
        Running = "running",
        /// Playable; no segment is needed until a player reads on.
        Paused = "paused",
        /// Playable; every segment of the item exists.
        Complete = "complete",
        Failed = "failed",
        /// Ended by its viewer, an admin, idleness or shutdown.
        Stopped = "stopped",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// The segment at the start position exists.
    Ready,
    /// A run is making segments.
    Working,
    /// The runs are far enough ahead.
    Ahead,
    AllSegmentsReady,
    Fault,
    Stop,
}

impl SessionState {
    /// Whether the segment at the start position exists and the session still serves.
    pub fn is_ready(self) -> bool {
        matches!(self, Self::Running | Self::Paused | Self::Complete)
    }

    /// Whether it counts towards its user's limit.
    pub fn is_active(self) -> bool {
        self == Self::Starting || self.is_ready()
    }

    /// The state after `event`, and whether to release the runs because the session has no readers any more.
    pub fn after(self, event: SessionEvent) -> (Self, bool) {
        use SessionState::*;
        match (self, event) {
            (Stopped, _) => (Stopped, false),
            (_, SessionEvent::Stop) => (Stopped, true),
            (Failed, _) => (Failed, false),
            (_, SessionEvent::Fault) => (Failed, true),
            (Starting, SessionEvent::Ready) => (Running, false),
            (Starting, _) => (Starting, false),
            (_, SessionEvent::Ready) => (self, false),
            (_, SessionEvent::Working) => (Running, false),
            (_, SessionEvent::Ahead) => (Paused, false),
            (_, SessionEvent::AllSegmentsReady) => (Complete, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SessionEvent::*;
    use SessionState::*;

    #[test]
    fn every_arrow() {
        let events = [Ready, Working, Ahead, AllSegmentsReady, Fault, Stop];
        let rows = [
            (Starting, [Running, Starting, Starting, Starting, Failed, Stopped]),
            (Running, [Running, Running, Paused, Complete, Failed, Stopped]),
            (Paused, [Paused, Running, Paused, Complete, Failed, Stopped]),
            (Complete, [Complete, Running, Paused, Complete, Failed, Stopped]),
            (Failed, [Failed, Failed, Failed, Failed, Failed, Stopped]),
            (Stopped, [Stopped; 6]),
        ];
        for (state, states_after) in rows {
            for (event, next) in events.into_iter().zip(states_after) {
                // Every arrow to another final state releases the runs, and no other arrow does.
                let releases = next != state && matches!(next, Failed | Stopped);
                assert_eq!(state.after(event), (next, releases), "{state:?} on {event:?}");
            }
        }
    }
}
