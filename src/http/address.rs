//! URLs of this server's own resources. Every URL in a response is built here, because each begins with the path of
//! `public_base_url`: a reverse proxy may serve the server under a path, such as `https://home.example/tv`.
//!
//! The exception is URLs within HLS playlists: they are relative to the playlist.

use std::borrow::Cow;
use std::fmt::{self, Display};

use percent_encoding::utf8_percent_encode;

use super::info::QUERY;
use crate::config::Config;
use crate::domain::address::without_credentials;
use crate::domain::channel::Channel;
use crate::domain::lineup::GENERATED_LOGOS;

/// Builds URLs as absolute paths (RFC 3986) that begin with the prefix.
#[derive(Clone, Copy, Debug, Default)]
pub struct Addresses<'a> {
    prefix: &'a str,
}

impl<'a> Addresses<'a> {
    pub fn of(config: &'a Config) -> Self {
        Self { prefix: config.path_prefix() }
    }

    /// The prefix alone: empty, or a path without a trailing slash.
    pub fn prefix(self) -> &'a str {
        self.prefix
    }

    /// The external path of an API path such as `/api/health`.
    pub fn at(self, path: impl Display) -> String {
        format!("{}{path}", self.prefix)
    }

    /// A media file's bytes.
    pub fn file(self, path: &str) -> String {
        self.at(format_args!("/api/stream/file?path={}", utf8_percent_encode(path, QUERY)))
    }

    /// A subtitle of a media file, as WebVTT.
    pub fn subtitle(self, path: &str, id: &str) -> String {
        let path = utf8_percent_encode(path, QUERY);
        self.at(format_args!("/api/stream/subtitle?path={path}&id={id}&format=vtt"))
    }

    /// The multivariant playlist of a session.
    pub fn session(self, id: &str) -> String {
        self.at(format_args!("/api/stream/transcode/{id}/index.m3u8"))
    }

    /// The URL that starts playback of a channel.
    pub fn watch(self, channel: u32) -> String {
        self.at(format_args!("/api/livetv/watch/{channel}"))
    }

    /// A channel's playlist.
    pub fn live(self, channel: u32) -> String {
        self.at(format_args!("/api/livetv/watch/{channel}/live.m3u8"))
    }

    /// A channel's logo: its own URL without credentials, or the logo this server generates.
    pub fn logo(self, channel: &Channel) -> String {
        self.picture(channel.settings.logo_url.as_deref(), channel.id).to_string()
    }

    /// A channel's own logo URL as configured, which only admins see; None when it has none.
    pub fn given_logo(self, channel: &Channel) -> Option<String> {
        channel.settings.logo_url.as_deref().map(|url| self.given(url).into_owned())
    }

    /// The URL of [`Self::logo`], formatted without an allocation.
    pub fn picture(self, given: Option<&'a str>, channel: u32) -> Picture<'a> {
        Picture { addresses: self, given, channel }
    }

    /// Adds the prefix to a path; a complete URL stays as it is.
    fn given(self, address: &str) -> Cow<'_, str> {
        if address.starts_with('/') { Cow::Owned(self.at(address)) } else { Cow::Borrowed(address) }
    }
}

/// The URL of a channel's logo.
#[derive(Clone, Copy)]
pub struct Picture<'a> {
    addresses: Addresses<'a>,
    given: Option<&'a str>,
    channel: u32,
}

impl Display for Picture<'_> {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.given.and_then(without_credentials) {
            Some(address) => text.write_str(&self.addresses.given(&address)),
            None => write!(text, "{}{GENERATED_LOGOS}{}", self.addresses.prefix, self.channel),
        }
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
    fn every_address_begins_with_the_prefix() {
        let mut config = Config::new("/s".into(), "/c".into());
        assert_eq!(Addresses::of(&config).live(7), "/api/livetv/watch/7/live.m3u8");
        for base in ["https://home.example/a/tv", "https://home.example/a/tv/"] {
            config.public_base_url = Some(base.into());
            let addresses = Addresses::of(&config);
            assert_eq!(addresses.file("/films/a b.mp4"), "/a/tv/api/stream/file?path=/films/a%20b.mp4");
            assert_eq!(addresses.picture(None, 3).to_string(), "/a/tv/api/livetv/logos/3");
            assert_eq!(addresses.picture(Some("/api/x.png"), 3).to_string(), "/a/tv/api/x.png");
            assert_eq!(addresses.picture(Some("https://art.example/x"), 3).to_string(), "https://art.example/x");
            assert_eq!(addresses.picture(Some("https://a:b@art.example/x"), 3).to_string(), "https://art.example/x");
        }
    }

    #[test]
    fn a_prefix_is_taken_off_where_a_proxy_passes_it_on() {
        for (path, prefix, without) in [
            ("/api/health", "", "/api/health"),
            ("/api/health", "/tv", "/api/health"),
            ("/tv/api/health", "/tv", "/api/health"),
            ("/tv/tv/api/health", "/tv", "/api/health"),
            ("/tv/", "/tv", "/"),
            ("/tv", "/tv", ""),
            ("/tvs/api", "/tv", "/tvs/api"),
            ("/tv/tv/tv/x", "/tv", "/tv/x"),
        ] {
            assert_eq!(without_prefix(path, prefix), without, "{path} {prefix}");
        }
    }
}
