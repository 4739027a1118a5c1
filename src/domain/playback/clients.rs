//! Known players: what each plays directly. Used when a request carries no device profile.
//!
//! A session is H.264 and AAC in MPEG-TS, which every entry plays, so an entry only says which files need no session.
//! Where the models of a family differ, the entry holds what all of them play.

use serde::{Deserialize, Deserializer, Serialize};

use super::device::DeviceProfile;

mod family;

use family::ClientFamily;

/// The name of an entry of the table. An alias, because serde borrows fields that it sees to be references.
type ClientName = &'static str;

/// The device of a request, and how it was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestDevice {
    pub profile: DeviceProfile,
    /// The entry of the table; None if the request brought a profile.
    #[serde(deserialize_with = "deserialize_client_name")]
    pub name: Option<ClientName>,
    pub source: DeviceSource,
}

named_values! {
    /// How a device was found.
    pub enum DeviceSource {
        /// A profile in the request, which switches the table off.
        Profile = "profile",
        /// The request's `player`.
        Player = "player",
        UserAgent = "userAgent",
        /// Nothing matched: the web baseline.
        Default = "default",
    }
}

/// The name of an entry. One that this version does not know becomes None.
fn deserialize_client_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ClientName>, D::Error> {
    let Some(stored) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let mut names = KNOWN_CLIENTS.iter().map(|client| client.name).chain([DEFAULT_NAME]);
    Ok(names.find(|name| *name == stored))
}

/// The name of the web baseline.
const DEFAULT_NAME: &str = "web";

impl Default for RequestDevice {
    fn default() -> Self {
        Self { profile: DeviceProfile::default(), name: Some(DEFAULT_NAME), source: DeviceSource::Default }
    }
}

impl RequestDevice {
    /// The device of a request: its own profile, otherwise the entry for its `player`, otherwise that for its User-Agent.
    pub fn resolve(profile: Option<DeviceProfile>, player: Option<&str>, user_agent: Option<&str>) -> Self {
        if let Some(profile) = profile {
            return Self { profile, name: None, source: DeviceSource::Profile };
        }
        let by_player = player.and_then(KnownClient::find_by_player).map(|client| (client, DeviceSource::Player));
        let found =
            by_player.or_else(|| Some((KnownClient::find_by_user_agent(user_agent?)?, DeviceSource::UserAgent)));
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
pub fn accepts_start_in_multivariant(user_agent: &str) -> bool {
    let client = KnownClient::find_by_user_agent(user_agent);
    client.is_some_and(|client| !matches!(client.family, ClientFamily::Software | ClientFamily::Gstreamer))
}

struct KnownClient {
    name: &'static str,
    /// Prefixes of `player`, lower case.
    players: &'static [&'static str],
    /// Substrings of a User-Agent, lower case; one match is enough.
    agents: &'static [&'static str],
    family: ClientFamily,
}

/// The first matching entry wins, so applications come before the browsers whose names they include.
const KNOWN_CLIENTS: [KnownClient; 21] = [
    known_client("roku", &["roku"], &["roku/"], ClientFamily::Roku),
    known_client("tizen", &["tizen"], &["tizen"], ClientFamily::Television),
    known_client("webos", &["webos"], &["web0s", "webos.tv"], ClientFamily::Television),
    known_client("chromecast", &["chromecast", "google cast"], &["crkey/"], ClientFamily::Chromecast),
    known_client("console", &["playstation", "nintendo"], &["playstation", "nintendo"], ClientFamily::Console),
    known_client("kodi", &["kodi", "xbmc"], &["kodi/", "xbmc/"], ClientFamily::Software),
    known_client("vlc", &["vlc", "libvlc"], &["vlc/", "libvlc"], ClientFamily::Software),
    known_client(
        "mpv",
        &["mpv", "libmpv", "jellyfin media player", "jellyfin desktop"],
        &["libmpv", "mpv/", "mpv ", "jellyfinmediaplayer", "jellyfin media player", "jellyfindesktop"],
        ClientFamily::Software,
    ),
    known_client("infuse", &["infuse"], &["infuse"], ClientFamily::Software),
    known_client("ffmpeg", &["ffmpeg", "ffplay", "lavf"], &["lavf/"], ClientFamily::Software),
    known_client("gstreamer", &["gstreamer", "gst-play"], &["gstreamer"], ClientFamily::Gstreamer),
    known_client(
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
        ClientFamily::Android,
    ),
    known_client(
        "apple",
        &["avplayer", "applecoremedia", "appletv", "apple tv", "swiftfin"],
        &["applecoremedia", "cfnetwork", "swiftfin"],
        ClientFamily::Apple,
    ),
    known_client("android", &["android"], &["stagefright", "dalvik/", "okhttp/"], ClientFamily::Android),
    // Every browser on these devices is WebKit, whatever its name.
    known_client("safari-mobile", &[], &["iphone", "ipad", "crios/", "fxios/", "edgios/"], ClientFamily::Apple),
    known_client("firefox", &["firefox"], &["firefox/"], ClientFamily::Browser),
    known_client("edge", &["edge"], &["edg/", "edga/", "edge/"], ClientFamily::Browser),
    known_client("opera", &["opera"], &["opr/"], ClientFamily::Browser),
    known_client("samsung-internet", &[], &["samsungbrowser/"], ClientFamily::Browser),
    known_client("chrome", &["chrome", "chromium"], &["chrome/", "chromium/"], ClientFamily::Browser),
    known_client("safari", &["safari"], &["safari/"], ClientFamily::Apple),
];

const fn known_client(
    name: &'static str,
    players: &'static [&'static str],
    agents: &'static [&'static str],
    family: ClientFamily,
) -> KnownClient {
    KnownClient { name, players, agents, family }
}

const MAX_COMPARED_BYTES: usize = 512;

impl KnownClient {
    fn find_by_player(player: &str) -> Option<&'static Self> {
        let player = normalize(player);
        let has_prefix = |name: &&str| {
            let rest = player.strip_prefix(*name);
            rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphabetic()))
        };
        KNOWN_CLIENTS.iter().find(|client| client.players.iter().any(&has_prefix))
    }

    fn find_by_user_agent(user_agent: &str) -> Option<&'static Self> {
        let agent = normalize(user_agent);
        KNOWN_CLIENTS.iter().find(|client| client.agents.iter().any(|part| agent.contains(part)))
    }
}

fn normalize(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_COMPARED_BYTES)].trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests;
