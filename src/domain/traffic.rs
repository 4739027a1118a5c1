//! Requests and bytes by class of route, counted since the server started.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

named_values! {
    /// The kind of content that a route serves.
    pub enum RouteClass {
        Page = "page",
        /// Everything that no other class names.
        Api = "api",
        /// Files as they are, with their subtitles and attachments, also for remote workers.
        File = "file",
        /// Playlists and segments of sessions.
        Session = "session",
        /// Playlists and segments of channels, also as a tuner.
        Channel = "channel",
        /// Posters, logos and seek previews.
        Image = "image",
        /// Event streams.
        Events = "events",
        /// Health and metrics.
        Monitoring = "monitoring",
        /// No such route.
        Unknown = "unknown",
    }
}

impl RouteClass {
    pub const ALL: [Self; 9] = [
        Self::Page,
        Self::Api,
        Self::File,
        Self::Session,
        Self::Channel,
        Self::Image,
        Self::Events,
        Self::Monitoring,
        Self::Unknown,
    ];
}

/// The classes of status codes, by their first digit.
pub const STATUS_CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// The counts of all classes.
#[derive(Debug, Default)]
pub struct TrafficCounts([ClassCounts; RouteClass::ALL.len()]);

#[derive(Debug, Default)]
struct ClassCounts {
    responses: [AtomicU64; STATUS_CLASSES.len()],
    sent_bytes: Arc<AtomicU64>,
}

impl TrafficCounts {
    /// Counts a response with this status code.
    pub fn count_response(&self, class: RouteClass, status: u16) {
        let status_class = usize::from(status / 100).clamp(1, STATUS_CLASSES.len()) - 1;
        self.of(class).responses[status_class].fetch_add(1, Ordering::Relaxed);
    }

    /// The responses of a class, by [`STATUS_CLASSES`].
    pub fn responses(&self, class: RouteClass) -> [u64; STATUS_CLASSES.len()] {
        std::array::from_fn(|status_class| self.of(class).responses[status_class].load(Ordering::Relaxed))
    }

    /// The counter of bytes sent in responses of a class, with their heads.
    pub fn sent_bytes(&self, class: RouteClass) -> &Arc<AtomicU64> {
        &self.of(class).sent_bytes
    }

    fn of(&self, class: RouteClass) -> &ClassCounts {
        &self.0[class as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_counted_by_class_and_first_digit() {
        let counts = TrafficCounts::default();
        for (class, status) in [(RouteClass::File, 206), (RouteClass::File, 404), (RouteClass::Api, 200)] {
            counts.count_response(class, status);
        }
        counts.sent_bytes(RouteClass::File).fetch_add(7, Ordering::Relaxed);
        assert_eq!(counts.responses(RouteClass::File), [0, 1, 0, 1, 0]);
        assert_eq!(counts.responses(RouteClass::Api), [0, 1, 0, 0, 0]);
        assert_eq!(counts.sent_bytes(RouteClass::File).load(Ordering::Relaxed), 7);
    }

    #[test]
    fn each_class_has_its_own_counts() {
        for (place, class) in RouteClass::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, place, "{}", class.as_str());
        }
    }
}
