//! Names and links of channels for external players: what the M3U and the XMLTV they fetch must agree on.

use std::borrow::Cow;

use crate::domain::address::without_credentials;
use crate::domain::channel::Channel;

/// What players shall know channels by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// What stays whatever becomes of name and number.
    #[default]
    Stable,
    Number,
    Name,
}

impl Naming {
    pub fn read(text: &str) -> Option<Self> {
        match text {
            "stable" => Some(Self::Stable),
            "number" => Some(Self::Number),
            "name" => Some(Self::Name),
            _ => None,
        }
    }

    pub fn of(self, channel: &Channel) -> Cow<'_, str> {
        match self {
            Self::Stable => Cow::Borrowed(&channel.tvg_id),
            Self::Number => Cow::Owned(channel.face.number.to_string()),
            Self::Name => Cow::Borrowed(&channel.face.name),
        }
    }
}

/// Where drawn pictures of channels are, by their id.
pub const DRAWN: &str = "/api/livetv/logos/";

/// Where a channel's image lies, as everybody may see it: the given one without credentials, or the one this server draws.
pub fn logo(channel: &Channel) -> Cow<'_, str> {
    match channel.face.logo_url.as_deref().and_then(without_credentials) {
        Some(url) => url,
        None => Cow::Owned(format!("{DRAWN}{}", channel.id)),
    }
}

/// An address that works from anywhere: one of this server's own begins with `base`, which has no slash at its end.
pub fn absolute<'a>(base: &str, address: Cow<'a, str>) -> Cow<'a, str> {
    match address.starts_with('/') {
        true => Cow::Owned(format!("{base}{address}")),
        false => address,
    }
}
