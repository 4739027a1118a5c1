//! URLs of this server's own resources. Every URL in a response is built here, because each begins with the path of
//! `public_base_url`: a reverse proxy may serve the server under a path, such as `https://home.example/tv`.
//!
//! The exception is URLs within HLS playlists: they are relative to the playlist.

use std::borrow::Cow;
use std::fmt::{self, Display};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::config::Config;
use crate::domain::catalogue::artwork::ArtworkKind;
use crate::domain::channel::Channel;
use crate::domain::lineup::{LOGOS, logo_of};

/// Characters to percent-encode in a query: all but the slash and the unreserved ones of RFC 3986.
pub(super) const QUERY_ENCODE_SET: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Builds URLs as absolute paths (RFC 3986) that begin with the prefix.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResourceUrls<'a> {
    prefix: &'a str,
}

impl<'a> ResourceUrls<'a> {
    pub fn from_config(config: &'a Config) -> Self {
        Self { prefix: config.path_prefix() }
    }

    /// The prefix alone: empty, or a path without a trailing slash.
    pub fn prefix(self) -> &'a str {
        self.prefix
    }

    /// The external path of an API path such as `/api/health`.
    pub fn external_path(self, path: impl Display) -> String {
        format!("{}{path}", self.prefix)
    }

    /// A media file's bytes.
    pub fn media_file(self, path: &str) -> String {
        self.external_path(format_args!("/api/stream/file?path={}", utf8_percent_encode(path, QUERY_ENCODE_SET)))
    }

    /// A subtitle of a media file, as WebVTT.
    pub fn subtitle(self, path: &str, id: &str) -> String {
        let path = utf8_percent_encode(path, QUERY_ENCODE_SET);
        self.external_path(format_args!("/api/stream/subtitle?path={path}&id={id}&format=vtt"))
    }

    /// An image of an item or a series, `owner` below `/api/library/`. `query` has its version and grant.
    pub fn artwork(self, owner: impl Display, kind: ArtworkKind, query: impl Display) -> String {
        self.external_path(format_args!("/api/library/{owner}/artwork/{}?{query}", kind.as_str()))
    }

    /// The WebVTT file of an item's seek previews. `query` has its version and grant.
    pub fn previews(self, item: impl Display, query: impl Display) -> String {
        self.external_path(format_args!("/api/library/items/{item}/artwork/previews.vtt?{query}"))
    }

    pub fn session_playlist(self, id: &str) -> String {
        self.external_path(format_args!("/api/stream/transcode/{id}/index.m3u8"))
    }

    /// The URL that starts playback of a channel.
    pub fn watch(self, channel: u32) -> String {
        self.external_path(format_args!("/api/livetv/watch/{channel}"))
    }

    pub fn live_playlist(self, channel: u32) -> String {
        self.external_path(format_args!("/api/livetv/watch/{channel}/live.m3u8"))
    }

    /// The multivariant playlist of a channel in fMP4.
    pub fn live_multivariant(self, channel: u32) -> String {
        self.external_path(format_args!("/api/livetv/watch/{channel}/index.m3u8"))
    }

    /// A channel's logo: its own path on this server, or where this server shows or generates it.
    pub fn logo(self, channel: &Channel) -> String {
        self.logo_url(channel.logo_url(), channel.id).to_string()
    }

    /// A channel's own logo URL as configured, which only admins see; None when it has none.
    pub fn configured_logo(self, channel: &Channel) -> Option<String> {
        channel.settings.logo_url.as_deref().map(|url| self.with_prefix(url).into_owned())
    }

    /// The change of a logo URL that a client requests, perhaps as it received it: without the prefix, an inner None for a generated
    /// logo, and None for one of another server as this server shows it, which stays.
    pub fn requested_logo(self, url: &str) -> Option<Option<String>> {
        let url = without_prefix(url, self.prefix);
        match url.strip_prefix(LOGOS) {
            Some(shown) if shown.contains("?v=") => None,
            Some(_) => Some(None),
            None => Some(Some(url.to_owned())),
        }
    }

    /// The URL of [`Self::logo`], for an answer that is written at once.
    pub fn logo_url(self, configured: Option<&'a str>, channel: u32) -> LogoUrl<'a> {
        LogoUrl { urls: self, configured, channel }
    }

    /// Adds the prefix to a path; a complete URL stays as it is.
    fn with_prefix(self, url: &str) -> Cow<'_, str> {
        if url.starts_with('/') { Cow::Owned(self.external_path(url)) } else { Cow::Borrowed(url) }
    }
}

/// The URL of a channel's logo.
#[derive(Clone, Copy)]
pub struct LogoUrl<'a> {
    urls: ResourceUrls<'a>,
    configured: Option<&'a str>,
    channel: u32,
}

impl Display for LogoUrl<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", self.urls.prefix, logo_of(self.configured, self.channel))
    }
}

/// Removes the prefix from a request's path if it is present. A proxy may strip the prefix or pass it on. A client that
/// prepends the base URL to a path that already begins with the prefix sends it twice.
pub fn without_prefix<'a>(path: &'a str, prefix: &str) -> &'a str {
    let mut path = path;
    for _ in 0..2 {
        match path.strip_prefix(prefix) {
            Some(rest) if !prefix.is_empty() && (rest.is_empty() || rest.starts_with('/')) => path = rest,
            _ => break,
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_url_begins_with_the_prefix() {
        let mut config = Config::new("/s".into(), "/c".into());
        assert_eq!(ResourceUrls::from_config(&config).live_playlist(7), "/api/livetv/watch/7/live.m3u8");
        for base in ["https://home.example/a/tv", "https://home.example/a/tv/"] {
            config.public_base_url = Some(base.into());
            let urls = ResourceUrls::from_config(&config);
            assert_eq!(urls.media_file("/films/a b.mp4"), "/a/tv/api/stream/file?path=/films/a%20b.mp4");
            assert_eq!(urls.logo_url(None, 3).to_string(), "/a/tv/api/livetv/logos/3");
            assert_eq!(urls.logo_url(Some("/api/x.png"), 3).to_string(), "/a/tv/api/x.png");
            let shown = urls.logo_url(Some("https://art.example/x"), 3).to_string();
            assert!(shown.starts_with("/a/tv/api/livetv/logos/3?v="), "{shown}");
            assert_eq!(urls.requested_logo(&shown), None, "no change");
            assert_eq!(urls.requested_logo("/a/tv/api/livetv/logos/3"), Some(None));
            assert_eq!(urls.requested_logo("/a/tv/art/x.png"), Some(Some("/art/x.png".into())));
            assert_eq!(urls.requested_logo("https://art.example/x"), Some(Some("https://art.example/x".into())));
        }
    }

    #[test]
    fn a_prefix_is_removed_if_a_proxy_passes_it_on() {
        for (path, prefix, expected) in [
            ("/api/health", "", "/api/health"),
            ("/api/health", "/tv", "/api/health"),
            ("/tv/api/health", "/tv", "/api/health"),
            ("/tv/tv/api/health", "/tv", "/api/health"),
            ("/tv/", "/tv", "/"),
            ("/tv", "/tv", ""),
            ("/tvs/api", "/tv", "/tvs/api"),
            ("/tv/tv/tv/x", "/tv", "/tv/x"),
        ] {
            assert_eq!(without_prefix(path, prefix), expected, "{path} {prefix}");
        }
    }
}
