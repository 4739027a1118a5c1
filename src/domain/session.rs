//! The states of a playback session and the effect of each event.

/// The state of a session. `Failed` and `Stopped` are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// The segment at the start position does not exist yet.
    Starting,
    /// Playable; a run is making segments for it.
    Running,
    /// Playable; no segment is needed until a player reads on.
    Paused,
    /// Playable; every segment of the item exists.
    Complete,
    /// The backend failed.
    Failed,
    /// Ended by its viewer, an admin, idleness or shutdown.
    Stopped,
}

/// An event of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The segment at the start position exists.
    Ready,
    /// A run is making segments.
    Working,
    /// The runs are far enough ahead.
    Ahead,
    /// Every segment exists.
    AllMade,
    Fault,
    Stop,
}

/// An action for the session's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Release the runs: the session has no readers any more.
    Release,
    /// Keep the session in memory as ended, so that its assets answer 410.
    Remember,
}

impl State {
    /// The API's value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }

    /// Whether the segment at the start position exists and the session still serves.
    pub fn is_ready(self) -> bool {
        matches!(self, Self::Running | Self::Paused | Self::Complete)
    }

    /// Whether it counts towards its user's limit.
    pub fn is_live(self) -> bool {
        self == Self::Starting || self.is_ready()
    }

    /// The state after `event`, and the actions to perform.
    pub fn on(self, event: Event) -> (Self, &'static [Action]) {
        use State::*;
        match (self, event) {
            (Stopped, _) => (Stopped, &[]),
            (_, Event::Stop) => (Stopped, &[Action::Release, Action::Remember]),
            (Failed, _) => (Failed, &[]),
            (_, Event::Fault) => (Failed, &[Action::Release]),
            (Starting, Event::Ready) => (Running, &[]),
            (Starting, _) => (Starting, &[]),
            (_, Event::Ready) => (self, &[]),
            (_, Event::Working) => (Running, &[]),
            (_, Event::Ahead) => (Paused, &[]),
            (_, Event::AllMade) => (Complete, &[]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Event::*;
    use State::*;

    #[test]
    fn every_arrow() {
        const RELEASE: &[Action] = &[Action::Release];
        const END: &[Action] = &[Action::Release, Action::Remember];
        type Arrow = (Event, State, &'static [Action]);
        let rows: [(State, [Arrow; 6]); 6] = [
            (
                Starting,
                [
                    (Ready, Running, &[]),
                    (Working, Starting, &[]),
                    (Ahead, Starting, &[]),
                    (AllMade, Starting, &[]),
                    (Fault, Failed, RELEASE),
                    (Stop, Stopped, END),
                ],
            ),
            (
                Running,
                [
                    (Ready, Running, &[]),
                    (Working, Running, &[]),
                    (Ahead, Paused, &[]),
                    (AllMade, Complete, &[]),
                    (Fault, Failed, RELEASE),
                    (Stop, Stopped, END),
                ],
            ),
            (
                Paused,
                [
                    (Ready, Paused, &[]),
                    (Working, Running, &[]),
                    (Ahead, Paused, &[]),
                    (AllMade, Complete, &[]),
                    (Fault, Failed, RELEASE),
                    (Stop, Stopped, END),
                ],
            ),
            (
                Complete,
                [
                    (Ready, Complete, &[]),
                    (Working, Running, &[]),
                    (Ahead, Paused, &[]),
                    (AllMade, Complete, &[]),
                    (Fault, Failed, RELEASE),
                    (Stop, Stopped, END),
                ],
            ),
            (
                Failed,
                [
                    (Ready, Failed, &[]),
                    (Working, Failed, &[]),
                    (Ahead, Failed, &[]),
                    (AllMade, Failed, &[]),
                    (Fault, Failed, &[]),
                    (Stop, Stopped, END),
                ],
            ),
            (
                Stopped,
                [
                    (Ready, Stopped, &[]),
                    (Working, Stopped, &[]),
                    (Ahead, Stopped, &[]),
                    (AllMade, Stopped, &[]),
                    (Fault, Stopped, &[]),
                    (Stop, Stopped, &[]),
                ],
            ),
        ];
        for (state, arrows) in rows {
            for (event, next, actions) in arrows {
                assert_eq!(state.on(event), (next, actions), "{state:?} on {event:?}");
            }
        }
    }
}
