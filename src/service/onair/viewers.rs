//! The viewers of each channel, and the channels that are kept warm without viewers.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::domain::access::Principal;

/// A viewer without a request for this long has left.
const IDLE: Duration = Duration::from_secs(30);

/// A named view without a request for this long, whose name was used on another channel since, has changed channels.
const MOVED: Duration = Duration::from_secs(1);

/// Shortest interval between two searches for viewers who have left.
const EXPIRE: Duration = Duration::from_secs(1);

/// Simultaneous views of one login, and of one user. A new one replaces the one that was idle longest. Clients choose the
/// names of views, so made-up names must not displace the views of others.
const LOGIN_VIEWS: usize = 16;
const USER_VIEWS: usize = 128;

/// Users and recordings with views at most. Further viewers can watch but are not counted.
const MOST_USERS: usize = 10_000;

/// The view of a login that starts over without naming a view. A player requests its playlist repeatedly; without a view that
/// keeps the start, it would jump to the next programme when that begins.
pub const START_OVER: &str = "_start-over";

/// State of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Idle,
    Warm,
    Starting,
    Live,
    /// The current programme cannot be shown; a slate replaces it.
    Error,
}

impl State {
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

/// A viewer: one view of one login. No other login can address it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Viewer {
    user: String,
    login: String,
    /// `watchSession`, the client's name of the view; empty for a view without a name.
    session: String,
}

impl Viewer {
    /// A view of the principal's login.
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

    /// A name that no other viewer has.
    pub fn name(&self) -> String {
        format!("{}/{}/{}", self.user, self.login, self.session)
    }
}

struct View {
    channel: u32,
    login: String,
    session: String,
    seen: Instant,
    /// Start of a view that is not live, ms.
    start_ms: Option<i64>,
}

impl View {
    /// Whether several players of one login may share the view.
    fn is_shared(&self) -> bool {
        matches!(&*self.session, "" | START_OVER)
    }

    fn is_idle(&self) -> bool {
        self.seen.elapsed() >= IDLE
    }

    fn is(&self, channel: u32, viewer: &Viewer) -> bool {
        self.channel == channel && self.session == viewer.session && self.login == viewer.login
    }
}

#[derive(Default)]
struct Book {
    by_user: HashMap<String, Vec<View>>,
    /// Views of each channel that has any.
    counts: HashMap<u32, usize>,
    expired: Option<Instant>,
}

/// All viewers.
#[derive(Default)]
pub struct Viewers {
    book: Mutex<Book>,
    warm: Mutex<HashMap<u32, Instant>>,
}

impl Book {
    /// Removes viewers who have left.
    fn expire(&mut self) {
        let now = Instant::now();
        self.expired = Some(now);
        let counts = &mut self.counts;
        self.by_user.retain(|_, views| {
            views.retain(|view| {
                let stays = now.saturating_duration_since(view.seen) < IDLE;
                if !stays {
                    uncount(counts, view.channel);
                }
                stays
            });
            !views.is_empty()
        });
    }

    fn insert(&mut self, viewer: &Viewer, view: View) {
        if self.by_user.len() >= MOST_USERS && !self.by_user.contains_key(&viewer.user) {
            return;
        }
        let views = self.by_user.entry(viewer.user.clone()).or_default();
        let of_login = views.iter().filter(|view| view.login == viewer.login).count();
        if of_login >= LOGIN_VIEWS || views.len() >= USER_VIEWS {
            let own = |view: &View| of_login < LOGIN_VIEWS || view.login == viewer.login;
            let oldest = views.iter().enumerate().filter(|(_, view)| own(view)).min_by_key(|(_, view)| view.seen);
            if let Some((place, _)) = oldest {
                uncount(&mut self.counts, views.swap_remove(place).channel);
            }
        }
        *self.counts.entry(view.channel).or_default() += 1;
        views.push(view);
    }
}

fn uncount(counts: &mut HashMap<u32, usize>, channel: u32) {
    if let Some(count) = counts.get_mut(&channel) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&channel);
        }
    }
}

impl Viewers {
    /// Records a request of a viewer; returns where the view began. An earlier start is kept until the view expires.
    pub fn seen(&self, channel: u32, viewer: &Viewer, start_ms: Option<i64>) -> Option<i64> {
        let mut book = self.lock();
        let known = book.by_user.get_mut(&viewer.user);
        if let Some(view) = known.and_then(|views| views.iter_mut().find(|view| view.is(channel, viewer))) {
            view.start_ms = view.start_ms.filter(|_| !view.is_idle()).or(start_ms);
            view.seen = Instant::now();
            return view.start_ms;
        }
        let (login, session) = (viewer.login.clone(), viewer.session.clone());
        book.insert(viewer, View { channel, login, session, seen: Instant::now(), start_ms });
        start_ms
    }

    /// Where a viewer's view began, if it was recorded.
    pub fn start_of(&self, channel: u32, viewer: &Viewer) -> Option<i64> {
        let book = self.lock();
        book.by_user.get(&viewer.user)?.iter().find(|view| view.is(channel, viewer) && !view.is_idle())?.start_ms
    }

    /// Removes the start of a viewer's view.
    pub fn clear_start(&self, channel: u32, viewer: &Viewer) {
        let mut book = self.lock();
        let views = book.by_user.get_mut(&viewer.user);
        if let Some(view) = views.and_then(|views| views.iter_mut().find(|view| view.is(channel, viewer))) {
            view.start_ms = None;
        }
    }

    /// Removes a viewer; false when there was none.
    pub fn leave(&self, channel: u32, viewer: &Viewer) -> bool {
        let mut book = self.lock();
        let Book { by_user, counts, .. } = &mut *book;
        let Some(views) = by_user.get_mut(&viewer.user) else { return false };
        let Some(place) = views.iter().position(|view| view.is(channel, viewer)) else { return false };
        views.swap_remove(place);
        uncount(counts, channel);
        if views.is_empty() {
            by_user.remove(&viewer.user);
        }
        true
    }

    /// Number of viewers of a channel. One who left without notice counts for 31 s at most.
    pub fn count(&self, channel: u32) -> usize {
        let mut book = self.lock();
        if book.expired.is_none_or(|at| at.elapsed() >= EXPIRE) {
            book.expire();
        }
        book.counts.get(&channel).copied().unwrap_or(0)
    }

    /// Whether a channel still has a viewer, as far as is known: a view whose name was used on another channel since has
    /// left this one, unless several players of one login may share it.
    pub(super) fn stays(&self, channel: u32) -> bool {
        let stays = |views: &[View], view: &View| {
            let moved = |other: &View| {
                other.channel != channel
                    && other.seen > view.seen
                    && (&other.login, &other.session) == (&view.login, &view.session)
            };
            view.is_shared() || view.seen.elapsed() < MOVED || !views.iter().any(moved)
        };
        let here = |view: &View| view.channel == channel && view.seen.elapsed() < IDLE;
        self.lock().by_user.values().any(|views| views.iter().any(|view| here(view) && stays(views, view)))
    }

    /// Whether the viewer of this [name](Viewer::name) watches a channel.
    pub(super) fn is_here(&self, channel: u32, name: &str) -> bool {
        let is = |user: &str, view: &View| {
            view.channel == channel && format!("{user}/{}/{}", view.login, view.session) == name
        };
        self.lock().by_user.iter().any(|(user, views)| views.iter().any(|view| is(user, view)))
    }

    /// Keeps a channel ready for a while.
    pub fn keep_warm(&self, channel: u32, ttl: Duration) {
        let mut warm = self.warm.lock().unwrap_or_else(PoisonError::into_inner);
        let until = Instant::now() + ttl;
        let known = warm.entry(channel).or_insert(until);
        *known = until.max(*known);
    }

    /// The channels that are kept ready.
    pub fn warm(&self) -> HashSet<u32> {
        let mut warm = self.warm.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        warm.retain(|_, until| *until > now);
        warm.keys().copied().collect()
    }

    pub(super) fn watched(&self) -> HashSet<u32> {
        self.lock().counts.keys().copied().collect()
    }

    pub(super) fn expire(&self) {
        self.lock().expire();
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn viewer(user: &str, login: &str, session: &str) -> Viewer {
        Viewer { user: user.into(), login: login.into(), session: session.into() }
    }

    #[tokio::test(start_paused = true)]
    async fn made_up_views_displace_their_own_login_and_nobody_else() {
        let viewers = Viewers::default();
        let ada = viewer("ada", "tv", "ws_1");
        viewers.seen(7, &ada, Some(5));
        viewers.seen(7, &viewer("mallory", "phone", "real"), None);
        for number in 0..10_000 {
            tokio::time::advance(Duration::from_micros(10)).await;
            viewers.seen(number % 100, &viewer("mallory", "laptop", &format!("ws_{number}")), None);
        }
        let total = |viewers: &Viewers| (0..100).map(|channel| viewers.count(channel)).sum::<usize>();
        assert_eq!(total(&viewers), 2 + LOGIN_VIEWS, "the oldest of that login are gone");
        assert_eq!(viewers.start_of(7, &ada), Some(5));
        for login in 0..100 {
            for session in 0..2 {
                let login = format!("l{login}");
                viewers.seen(3, &viewer("mallory", &login, &session.to_string()), None);
            }
        }
        assert_eq!(total(&viewers), 1 + USER_VIEWS);
        assert_eq!((viewers.start_of(7, &ada), viewers.watched().contains(&7)), (Some(5), true));
        tokio::time::advance(IDLE + EXPIRE).await;
        assert_eq!((total(&viewers), viewers.watched().len()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_is_kept_until_the_view_expires() {
        let viewers = Viewers::default();
        let ada = viewer("ada", "tv", START_OVER);
        viewers.seen(7, &ada, Some(5));
        tokio::time::advance(IDLE / 2).await;
        assert_eq!((viewers.seen(7, &ada, Some(9)), viewers.start_of(7, &ada)), (Some(5), Some(5)));
        tokio::time::advance(IDLE).await;
        assert_eq!((viewers.start_of(7, &ada), viewers.seen(7, &ada, Some(9))), (None, Some(9)));
        // Another player of the same login on another channel does not end it.
        tokio::time::advance(MOVED).await;
        viewers.seen(8, &ada, Some(1));
        assert!(viewers.stays(7) && viewers.stays(8));
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_is_kept_by_segments_and_cleared_by_a_live_view() {
        let viewers = Viewers::default();
        let ada = viewer("ada", "tv", "ws_1");
        viewers.seen(7, &ada, Some(5));
        assert_eq!((viewers.seen(7, &ada, None), viewers.start_of(7, &ada)), (Some(5), Some(5)));
        viewers.clear_start(7, &viewer("ada", "tv", "ws_2"));
        viewers.clear_start(8, &ada);
        assert_eq!(viewers.start_of(7, &ada), Some(5));
        viewers.clear_start(7, &ada);
        assert_eq!((viewers.start_of(7, &ada), viewers.seen(7, &ada, Some(9))), (None, Some(9)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_view_is_ended_by_its_own_login_alone() {
        let viewers = Viewers::default();
        let own = viewer("ada", "tv", "ws_1");
        viewers.seen(1, &own, None);
        viewers.seen(2, &own, None);
        for other in [viewer("bob", "tv", "ws_1"), viewer("ada", "phone", "ws_1"), viewer("ada", "tv", "ws_2")] {
            assert!(!viewers.leave(1, &other), "{other:?}");
        }
        assert_eq!((viewers.count(1), viewers.count(2)), (1, 1));
        assert!(viewers.leave(1, &own) && !viewers.leave(1, &own));
        assert_eq!((viewers.count(1), viewers.count(2)), (0, 1));
    }
}
