//! Names and links of channels for external players: what the M3U and the XMLTV they fetch must agree on.

use std::borrow::Cow;

use crate::domain::address::without_credentials;
use crate::domain::channel::Channel;

named_values! {
    /// The id by which players know channels.
    #[derive(Default)]
    pub enum ChannelNaming {
        /// Stays the same when name and number change.
        #[default]
        Stable = "stable",
        Number = "number",
        Name = "name",
    }
}

impl ChannelNaming {
    pub fn id_of(self, channel: &Channel) -> Cow<'_, str> {
        match self {
            Self::Stable => Cow::Borrowed(&channel.tvg_id),
            Self::Number => Cow::Owned(channel.settings.number.to_string()),
            Self::Name => Cow::Borrowed(&channel.settings.name),
        }
    }
}

/// Address of generated channel logos, followed by the channel's id.
pub const GENERATED_LOGOS: &str = "/api/livetv/logos/";

/// The public address of a channel's logo: the configured one without credentials, or a generated one.
pub fn logo_address(channel: &Channel) -> Cow<'_, str> {
    let configured = channel.settings.logo_url.as_deref().and_then(without_credentials);
    configured.unwrap_or_else(|| Cow::Owned(format!("{GENERATED_LOGOS}{}", channel.id)))
}

/// Makes an address absolute: a path on this server is prefixed with `base`, which has no trailing slash.
pub fn absolute_address<'a>(base: &str, address: Cow<'a, str>) -> Cow<'a, str> {
    if address.starts_with('/') { Cow::Owned(format!("{base}{address}")) } else { address }
}
