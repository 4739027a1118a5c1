//! The state of a channel, as events and the API report it.

/// State of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelState {
    Idle,
    Warm,
    Starting,
    Live,
    /// The current programme cannot be shown; a slate replaces it.
    Error,
}

impl ChannelState {
    /// The value in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Warm => "warm",
            Self::Starting => "starting",
            Self::Live => "live",
            Self::Error => "error",
        }
    }
}
