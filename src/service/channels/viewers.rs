//! The viewers of each channel, and the channels that are kept warm without viewers.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::domain::access::Principal;
use crate::domain::time::ChannelMs;

/// A viewer without a request for this long has left.
const VIEW_TIMEOUT: Duration = Duration::from_secs(30);

/// A named view without a request for this long, whose name was used on another channel since, has changed channels.
const CHANNEL_CHANGE_AFTER: Duration = Duration::from_secs(1);

/// Shortest interval between two searches for viewers who have left.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(1);

/// Simultaneous views of one login, and of one user. A new one replaces the one that was idle longest. Clients choose the
/// names of views, so made-up names must not displace the views of others.
const MAX_VIEWS_PER_LOGIN: usize = 16;
const MAX_VIEWS_PER_USER: usize = 128;

/// Users and recordings with views at most. Further viewers can watch but are not counted.
const MAX_USERS_WITH_VIEWS: usize = 10_000;

/// The view of a login that starts over without naming a view. A player requests its playlist repeatedly; without a view that
/// keeps the start, it would jump to the next programme when that begins.
pub const START_OVER: &str = "_start-over";

/// A viewer: one view of one login. No other login can address it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Viewer {
    user: String,
    login: String,
    /// `watchSession`, the client's name of the view; empty for a view without a name.
    session: String,
}

impl Viewer {
    pub fn new(principal: &Principal, session: Option<&str>) -> Self {
        Self {
            user: principal.user_id.clone(),
            login: principal.login_id.clone(),
            session: session.unwrap_or_default().to_owned(),
        }
    }

    /// The server itself: a recording or a tuner stream.
    pub fn internal(name: &str) -> Self {
        Self { user: name.to_owned(), login: String::new(), session: String::new() }
    }

    /// Whether the client gave the view a name.
    pub fn is_named(&self) -> bool {
        !self.session.is_empty()
    }

    /// A name that no other viewer has.
    pub fn unique_name(&self) -> String {
        format!("{}/{}/{}", self.user, self.login, self.session)
    }
}

/// Change of a view's start by a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewStart {
    Unchanged,
    /// A live view has no start, so that the next start-over begins with the programme that is on then.
    Cleared,
    /// A view that starts over. An earlier start is kept until the view expires.
    At(ChannelMs),
}

struct TrackedView {
    channel: u32,
    login: String,
    session: String,
    began: Instant,
    last_seen: Instant,
    /// Start of a view that is not live.
    start_ms: Option<ChannelMs>,
}

impl TrackedView {
    /// Whether several players of one login may share the view.
    fn is_shared(&self) -> bool {
        matches!(&*self.session, "" | START_OVER)
    }

    fn has_expired(&self) -> bool {
        self.last_seen.elapsed() >= VIEW_TIMEOUT
    }

    fn matches(&self, channel: u32, viewer: &Viewer) -> bool {
        self.channel == channel && self.is_same_viewer(viewer)
    }

    fn is_same_viewer(&self, viewer: &Viewer) -> bool {
        self.session == viewer.session && self.login == viewer.login
    }

    /// Whether a request for it means that its viewer is back from another channel, last seen there at that time. Unknown for
    /// shared views.
    fn has_returned(&self, seen_on_others: Option<Instant>) -> bool {
        !self.is_shared()
            && self.last_seen.elapsed() >= CHANNEL_CHANGE_AFTER
            && seen_on_others.is_some_and(|seen| seen > self.last_seen)
    }
}

/// A viewer began to watch a channel live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewView {
    pub channel: u32,
    /// The channel this viewer watched before, if the view was seen within 30 s.
    pub previous_channel: Option<u32>,
}

#[derive(Default)]
struct ViewTable {
    by_user: HashMap<String, Vec<TrackedView>>,
    /// Views of each channel that has any.
    counts: HashMap<u32, usize>,
    last_expiry: Option<Instant>,
}

#[derive(Default)]
pub struct Viewers {
    table: Mutex<ViewTable>,
    warm_channels: Mutex<HashMap<u32, Instant>>,
}

impl ViewTable {
    /// The views of viewers who have not left or changed channels, as far as is known.
    fn present_views(&self) -> impl Iterator<Item = &TrackedView> {
        let is_present = |views: &[TrackedView], view: &TrackedView| {
            let has_moved = |other: &TrackedView| {
                other.channel != view.channel
                    && other.last_seen > view.last_seen
                    && (&other.login, &other.session) == (&view.login, &view.session)
            };
            let is_recent = view.is_shared() || view.last_seen.elapsed() < CHANNEL_CHANGE_AFTER;
            !view.has_expired() && (is_recent || !views.iter().any(has_moved))
        };
        self.by_user.values().flat_map(move |views| views.iter().filter(move |view| is_present(views, view)))
    }

    /// Removes viewers who have left.
    fn expire_views(&mut self) {
        let now = Instant::now();
        self.last_expiry = Some(now);
        let counts = &mut self.counts;
        self.by_user.retain(|_, views| {
            views.retain(|view| {
                let is_present = now.saturating_duration_since(view.last_seen) < VIEW_TIMEOUT;
                if !is_present {
                    decrement_count(counts, view.channel);
                }
                is_present
            });
            !views.is_empty()
        });
    }
}

fn decrement_count(counts: &mut HashMap<u32, usize>, channel: u32) {
    if let Some(count) = counts.get_mut(&channel) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&channel);
        }
    }
}

impl Viewers {
    /// Records a request of a viewer; returns where the view began.
    pub fn record_request(&self, channel: u32, viewer: &Viewer, start: ViewStart) -> Option<ChannelMs> {
        let start_ms = if let ViewStart::At(start_ms) = start { Some(start_ms) } else { None };
        let mut table = self.lock();
        let ViewTable { by_user, counts, .. } = &mut *table;
        if by_user.len() >= MAX_USERS_WITH_VIEWS && !by_user.contains_key(&viewer.user) {
            return start_ms;
        }
        let views = by_user.entry(viewer.user.clone()).or_default();
        let last_seen_on_others = views.iter().filter(|view| view.is_same_viewer(viewer) && view.channel != channel);
        let last_seen_on_others = last_seen_on_others.map(|view| view.last_seen).max();
        if let Some(view) = views.iter_mut().find(|view| view.matches(channel, viewer)) {
            if view.has_returned(last_seen_on_others) {
                view.began = Instant::now();
            }
            let is_kept = start != ViewStart::Cleared && !view.has_expired();
            view.start_ms = view.start_ms.filter(|_| is_kept).or(start_ms);
            view.last_seen = Instant::now();
            return view.start_ms;
        }
        let login_count = views.iter().filter(|view| view.login == viewer.login).count();
        if login_count >= MAX_VIEWS_PER_LOGIN || views.len() >= MAX_VIEWS_PER_USER {
            let is_own = |view: &TrackedView| login_count < MAX_VIEWS_PER_LOGIN || view.login == viewer.login;
            let oldest = views.iter().enumerate().filter(|(_, one)| is_own(one)).min_by_key(|(_, one)| one.last_seen);
            if let Some((index, _)) = oldest {
                decrement_count(counts, views.swap_remove(index).channel);
            }
        }
        *counts.entry(channel).or_default() += 1;
        let (login, session) = (viewer.login.clone(), viewer.session.clone());
        let now = Instant::now();
        views.push(TrackedView { channel, login, session, began: now, last_seen: now, start_ms });
        start_ms
    }

    /// Where a viewer's view began, if it was recorded.
    pub fn view_start_ms(&self, channel: u32, viewer: &Viewer) -> Option<ChannelMs> {
        let table = self.lock();
        table.by_user.get(&viewer.user)?.iter().find(|one| one.matches(channel, viewer) && !one.has_expired())?.start_ms
    }

    /// Removes a viewer; false when there was none.
    pub fn leave(&self, channel: u32, viewer: &Viewer) -> bool {
        let mut table = self.lock();
        let ViewTable { by_user, counts, .. } = &mut *table;
        let Some(views) = by_user.get_mut(&viewer.user) else { return false };
        let Some(index) = views.iter().position(|view| view.matches(channel, viewer)) else { return false };
        views.swap_remove(index);
        decrement_count(counts, channel);
        if views.is_empty() {
            by_user.remove(&viewer.user);
        }
        true
    }

    /// Number of viewers of a channel. One who left without notice counts for 31 s at most.
    pub fn viewer_count(&self, channel: u32) -> usize {
        let mut table = self.lock();
        if table.last_expiry.is_none_or(|since| since.elapsed() >= EXPIRY_INTERVAL) {
            table.expire_views();
        }
        table.counts.get(&channel).copied().unwrap_or(0)
    }

    /// Whether a channel still has a viewer, as far as is known: a view whose name was used on another channel since has
    /// left this one, unless several players of one login may share it.
    pub fn has_present_viewer(&self, channel: u32) -> bool {
        self.lock().present_views().any(|view| view.channel == channel)
    }

    /// The channels with a viewer, as [`Self::has_present_viewer`] counts them.
    pub fn channels_with_present_viewer(&self) -> HashSet<u32> {
        self.lock().present_views().map(|view| view.channel).collect()
    }

    /// Viewers who began to watch their channel live within this time, the latest first. Recordings and tuners are not among
    /// them.
    pub fn new_views(&self, within: Duration) -> Vec<NewView> {
        let table = self.lock();
        let mut new_views: Vec<(Instant, NewView)> = Vec::new();
        for views in table.by_user.values() {
            let is_live = |view: &&TrackedView| !view.login.is_empty() && view.start_ms.is_none();
            for view in views.iter().filter(is_live).filter(|view| view.began.elapsed() < within) {
                let is_earlier = |other: &&TrackedView| {
                    (&other.login, &other.session) == (&view.login, &view.session) && other.began < view.began
                };
                let previous = views.iter().filter(is_earlier).max_by_key(|other| other.last_seen);
                let previous_channel = previous.map(|previous| previous.channel);
                new_views.push((view.began, NewView { channel: view.channel, previous_channel }));
            }
        }
        drop(table);
        new_views.sort_by_key(|(began, _)| std::cmp::Reverse(*began));
        new_views.into_iter().map(|(_, new_view)| new_view).collect()
    }

    /// Whether the viewer of this [name](Viewer::unique_name) watches a channel.
    pub fn is_watching(&self, channel: u32, name: &str) -> bool {
        let is_viewer = |user: &str, view: &TrackedView| {
            view.channel == channel && format!("{user}/{}/{}", view.login, view.session) == name
        };
        self.lock().by_user.iter().any(|(user, views)| views.iter().any(|view| is_viewer(user, view)))
    }

    /// Keeps a channel ready for a while.
    pub fn keep_warm(&self, channel: u32, ttl: Duration) {
        let mut warm_channels = self.warm_channels.lock().unwrap_or_else(PoisonError::into_inner);
        let new_expiry = Instant::now() + ttl;
        let expires_at = warm_channels.entry(channel).or_insert(new_expiry);
        *expires_at = new_expiry.max(*expires_at);
    }

    /// The channels that are kept ready.
    pub fn warm_channels(&self) -> HashSet<u32> {
        let mut warm_channels = self.warm_channels.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        warm_channels.retain(|_, expires_at| *expires_at > now);
        warm_channels.keys().copied().collect()
    }

    pub fn watched_channels(&self) -> HashSet<u32> {
        self.lock().counts.keys().copied().collect()
    }

    pub fn expire_views(&self) {
        self.lock().expire_views();
    }

    fn lock(&self) -> MutexGuard<'_, ViewTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn viewer(user: &str, login: &str, session: &str) -> Viewer {
        Viewer { user: user.into(), login: login.into(), session: session.into() }
    }

    #[tokio::test(start_paused = true)]
    async fn made_up_views_displace_only_views_of_their_login() {
        let viewers = Viewers::default();
        let ada = viewer("ada", "tv", "ws_1");
        viewers.record_request(7, &ada, ViewStart::At(ChannelMs(5)));
        viewers.record_request(7, &viewer("mallory", "phone", "real"), ViewStart::Unchanged);
        for number in 0..10_000 {
            tokio::time::advance(Duration::from_micros(10)).await;
            let made_up = viewer("mallory", "laptop", &format!("ws_{number}"));
            viewers.record_request(number % 100, &made_up, ViewStart::Unchanged);
        }
        let total = |viewers: &Viewers| (0..100).map(|channel| viewers.viewer_count(channel)).sum::<usize>();
        assert_eq!(total(&viewers), 2 + MAX_VIEWS_PER_LOGIN, "the oldest of that login are gone");
        assert_eq!(viewers.view_start_ms(7, &ada), Some(ChannelMs(5)));
        for login in 0..100 {
            for session in 0..2 {
                let login = format!("l{login}");
                viewers.record_request(3, &viewer("mallory", &login, &session.to_string()), ViewStart::Unchanged);
            }
        }
        assert_eq!(total(&viewers), 1 + MAX_VIEWS_PER_USER);
        assert_eq!(viewers.view_start_ms(7, &ada), Some(ChannelMs(5)));
        assert!(viewers.watched_channels().contains(&7));
        tokio::time::advance(VIEW_TIMEOUT + EXPIRY_INTERVAL).await;
        assert_eq!((total(&viewers), viewers.watched_channels().len()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_is_kept_until_the_view_expires() {
        let viewers = Viewers::default();
        let ada = viewer("ada", "tv", START_OVER);
        viewers.record_request(7, &ada, ViewStart::At(ChannelMs(5)));
        tokio::time::advance(VIEW_TIMEOUT / 2).await;
        assert_eq!(viewers.record_request(7, &ada, ViewStart::At(ChannelMs(9))), Some(ChannelMs(5)));
        assert_eq!(viewers.view_start_ms(7, &ada), Some(ChannelMs(5)));
        tokio::time::advance(VIEW_TIMEOUT).await;
        assert_eq!(viewers.view_start_ms(7, &ada), None);
        assert_eq!(viewers.record_request(7, &ada, ViewStart::At(ChannelMs(9))), Some(ChannelMs(9)));
        // Another player of the same login on another channel does not end it.
        tokio::time::advance(CHANNEL_CHANGE_AFTER).await;
        viewers.record_request(8, &ada, ViewStart::At(ChannelMs(1)));
        assert!(viewers.has_present_viewer(7) && viewers.has_present_viewer(8));
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_is_kept_by_segments_and_cleared_by_a_live_view() {
        let viewers = Viewers::default();
        let ada = viewer("ada", "tv", "ws_1");
        viewers.record_request(7, &ada, ViewStart::At(ChannelMs(5)));
        assert_eq!(viewers.record_request(7, &ada, ViewStart::Unchanged), Some(ChannelMs(5)));
        assert_eq!(viewers.view_start_ms(7, &ada), Some(ChannelMs(5)));
        viewers.record_request(7, &viewer("ada", "tv", "ws_2"), ViewStart::Cleared);
        viewers.record_request(8, &ada, ViewStart::Cleared);
        assert_eq!(viewers.view_start_ms(7, &ada), Some(ChannelMs(5)));
        viewers.record_request(7, &ada, ViewStart::Cleared);
        assert_eq!(viewers.view_start_ms(7, &ada), None);
        assert_eq!(viewers.record_request(7, &ada, ViewStart::At(ChannelMs(9))), Some(ChannelMs(9)));
    }

    #[tokio::test(start_paused = true)]
    async fn new_views_are_live_views_that_began_lately() {
        let viewers = Viewers::default();
        let (ada, bob) = (viewer("ada", "tv", "ws_1"), viewer("bob", "tv", ""));
        let within = Duration::from_secs(20);
        viewers.record_request(1, &ada, ViewStart::Unchanged);
        viewers.record_request(1, &Viewer::internal("recording"), ViewStart::Unchanged);
        viewers.record_request(4, &viewer("ada", "tv", "ws_2"), ViewStart::At(ChannelMs(5)));
        assert_eq!(viewers.new_views(within), [NewView { channel: 1, previous_channel: None }]);
        tokio::time::advance(Duration::from_secs(1)).await;
        viewers.record_request(2, &ada, ViewStart::Unchanged);
        tokio::time::advance(Duration::from_secs(1)).await;
        viewers.record_request(3, &bob, ViewStart::Unchanged);
        let new_views = [(3, None), (2, Some(1)), (1, None)];
        let new_views = new_views.map(|(channel, previous_channel)| NewView { channel, previous_channel });
        assert_eq!(viewers.new_views(within), new_views);
        tokio::time::advance(within - Duration::from_secs(2)).await;
        viewers.record_request(2, &ada, ViewStart::Unchanged);
        assert_eq!(viewers.new_views(within), new_views[..2]);
        // Back on the first channel.
        tokio::time::advance(Duration::from_secs(1)).await;
        viewers.record_request(1, &ada, ViewStart::Unchanged);
        assert_eq!(viewers.new_views(within)[0], NewView { channel: 1, previous_channel: Some(2) });
        tokio::time::advance(within).await;
        viewers.record_request(1, &ada, ViewStart::Unchanged);
        assert_eq!(viewers.new_views(within), []);
    }

    #[tokio::test(start_paused = true)]
    async fn only_its_own_login_can_end_a_view() {
        let viewers = Viewers::default();
        let own = viewer("ada", "tv", "ws_1");
        viewers.record_request(1, &own, ViewStart::Unchanged);
        viewers.record_request(2, &own, ViewStart::Unchanged);
        for other in [viewer("bob", "tv", "ws_1"), viewer("ada", "phone", "ws_1"), viewer("ada", "tv", "ws_2")] {
            assert!(!viewers.leave(1, &other), "{other:?}");
        }
        assert_eq!((viewers.viewer_count(1), viewers.viewer_count(2)), (1, 1));
        assert!(viewers.leave(1, &own) && !viewers.leave(1, &own));
        assert_eq!((viewers.viewer_count(1), viewers.viewer_count(2)), (0, 1));
    }
}
