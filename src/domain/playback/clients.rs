//! Known players: what each plays directly. Used when a request carries no device profile.
//!
//! A session is H.264 and AAC in MPEG-TS, which every entry plays, so an entry only says which files need no session.
//! Where the models of a family differ, the entry holds what all of them play.

use super::device::DeviceProfile;

mod family;

use family::Family;

/// The device of a request, and how it was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    pub profile: DeviceProfile,
    /// The entry of the table; None if the request brought a profile.
    pub name: Option<&'static str>,
    pub source: DeviceSource,
}

/// How a device was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceSource {
    /// A profile in the request, which switches the table off.
    Profile,
    /// The request's `player`.
    Player,
    UserAgent,
    /// Nothing matched: the web baseline.
    Default,
}

impl DeviceSource {
    /// The API's value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Profile => "profile",
            Self::Player => "player",
            Self::UserAgent => "userAgent",
            Self::Default => "default",
        }
    }
}

impl Default for Device {
    fn default() -> Self {
        Self { profile: DeviceProfile::default(), name: Some("web"), source: DeviceSource::Default }
    }
}

impl Device {
    /// The device of a request: its own profile, otherwise the entry for its `player`, otherwise that for its User-Agent.
    pub fn of(profile: Option<DeviceProfile>, player: Option<&str>, user_agent: Option<&str>) -> Self {
        if let Some(profile) = profile {
            return Self { profile, name: None, source: DeviceSource::Profile };
        }
        let by_player = player.and_then(Client::of_player).map(|client| (client, DeviceSource::Player));
        let found = by_player.or_else(|| Some((Client::of_agent(user_agent?)?, DeviceSource::UserAgent)));
        found.map_or_else(Self::default, |(client, source)| Self {
            profile: client.family.profile(),
            name: Some(client.name),
            source,
        })
    }

    /// Whether subtitles must be a rendition of a session: a client that sends no profile may not know `subtitleUrl`.
    pub fn needs_subtitle_rendition(&self) -> bool {
        self.source != DeviceSource::Profile
    }
}

/// Whether a player with this User-Agent accepts `EXT-X-START` in a multivariant playlist (RFC 8216 section 4.3.5.2). ffmpeg
/// 5.1 and players built on it mistake a multivariant playlist with the tag for a media playlist as well: they list its
/// streams twice and lose the duration.
pub fn takes_start_in_multivariant(user_agent: &str) -> bool {
    let client = Client::of_agent(user_agent);
    client.is_some_and(|client| !matches!(client.family, Family::Software | Family::Gstreamer))
}

/// An entry of the table.
struct Client {
    name: &'static str,
    /// Prefixes of `player`, lower case.
    players: &'static [&'static str],
    /// Substrings of a User-Agent, lower case; one match is enough.
    agents: &'static [&'static str],
    family: Family,
}

/// The first matching entry wins, so applications come before the browsers whose names they include.
const CLIENTS: [Client; 21] = [
    client("roku", &["roku"], &["roku/"], Family::Roku),
    client("tizen", &["tizen"], &["tizen"], Family::Television),
    client("webos", &["webos"], &["web0s", "webos.tv"], Family::Television),
    client("chromecast", &["chromecast", "google cast"], &["crkey/"], Family::Chromecast),
    client("console", &["playstation", "nintendo"], &["playstation", "nintendo"], Family::Console),
    client("kodi", &["kodi", "xbmc"], &["kodi/", "xbmc/"], Family::Software),
    client("vlc", &["vlc", "libvlc"], &["vlc/", "libvlc"], Family::Software),
    client(
        "mpv",
        &["mpv", "libmpv", "jellyfin media player", "jellyfin desktop"],
        &["libmpv", "mpv/", "mpv ", "jellyfinmediaplayer", "jellyfin media player", "jellyfindesktop"],
        Family::Software,
    ),
    client("infuse", &["infuse"], &["infuse"], Family::Software),
    client("ffmpeg", &["ffmpeg", "ffplay", "lavf"], &["lavf/"], Family::Software),
    client("gstreamer", &["gstreamer", "gst-play"], &["gstreamer"], Family::Gstreamer),
    client(
        "exoplayer",
        &["exoplayer", "media3", "androidtv", "android tv", "jellyfin android", "findroid", "tivimate"],
        &[
            "exoplayer",
            "androidxmedia3",
            "jellyfin android",
            "jellyfin-android",
            "findroid",
            "tivimate",
            "ott navigator",
        ],
        Family::Android,
    ),
    client(
        "apple",
        &["avplayer", "applecoremedia", "appletv", "apple tv", "swiftfin"],
        &["applecoremedia", "cfnetwork", "swiftfin"],
        Family::Apple,
    ),
    client("android", &["android"], &["stagefright", "dalvik/", "okhttp/"], Family::Android),
    // Every browser on these devices is WebKit, whatever its name.
    client("safari-mobile", &[], &["iphone", "ipad", "crios/", "fxios/", "edgios/"], Family::Apple),
    client("firefox", &["firefox"], &["firefox/"], Family::Browser),
    client("edge", &["edge"], &["edg/", "edga/", "edge/"], Family::Browser),
    client("opera", &["opera"], &["opr/"], Family::Browser),
    client("samsung-internet", &[], &["samsungbrowser/"], Family::Browser),
    client("chrome", &["chrome", "chromium"], &["chrome/", "chromium/"], Family::Browser),
    client("safari", &["safari"], &["safari/"], Family::Apple),
];

const fn client(
    name: &'static str,
    players: &'static [&'static str],
    agents: &'static [&'static str],
    family: Family,
) -> Client {
    Client { name, players, agents, family }
}

/// Number of bytes of a name that are compared.
const LONGEST: usize = 512;

impl Client {
    fn of_player(player: &str) -> Option<&'static Self> {
        let player = lower(player);
        let begins = |name: &&str| {
            let rest = player.strip_prefix(*name);
            rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphabetic()))
        };
        CLIENTS.iter().find(|client| client.players.iter().any(&begins))
    }

    fn of_agent(user_agent: &str) -> Option<&'static Self> {
        let agent = lower(user_agent);
        CLIENTS.iter().find(|client| client.agents.iter().any(|part| agent.contains(part)))
    }
}

fn lower(text: &str) -> String {
    text[..text.floor_char_boundary(LONGEST)].trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests;
