//! The state of a channel, as events and the API report it.

named_values! {
    pub enum ChannelState {
        Idle = "idle",
        Warm = "warm",
        Starting = "starting",
        Live = "live",
        /// The current programme cannot be shown; a slate replaces it.
        Error = "error",
    }
}
