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

/// Address of channel logos on this server, followed by the channel's id.
pub const LOGOS: &str = "/api/livetv/logos/";

/// Address of icons of programmes, followed by the channel's id and the start of the programme in unix seconds.
const ICONS: &str = "/api/livetv/icons/";

/// The public address of a channel's logo.
pub fn logo_address(channel: &Channel) -> Cow<'_, str> {
    logo_of(channel.logo_url(), channel.id)
}

/// The public address of a logo: the configured one if it is a path on this server, otherwise that at which this server shows the
/// image of another server, or a generated one.
pub fn logo_of(configured: Option<&str>, channel: u32) -> Cow<'_, str> {
    match configured.and_then(without_credentials) {
        Some(address) if is_remote(&address) => Cow::Owned(format!("{LOGOS}{channel}?v={}", image_version(&address))),
        Some(address) => address,
        None => Cow::Owned(format!("{LOGOS}{channel}")),
    }
}

/// The address of a channel's logo on another server.
pub fn remote_logo(channel: &Channel) -> Option<Cow<'_, str>> {
    channel.logo_url().and_then(without_credentials).filter(|address| is_remote(address))
}

/// The address at which this server shows the icon of a listed programme.
pub fn icon_address(channel: u32, start_ms: i64, icon_url: &str) -> String {
    format!("{ICONS}{channel}/{}?v={}", start_ms.div_euclid(1000), image_version(icon_url))
}

/// Names the image at an address. Only those who know the address guess it.
pub fn image_version(address: &str) -> String {
    blake3::hash(address.as_bytes()).to_hex()[..16].to_owned()
}

fn is_remote(address: &str) -> bool {
    !address.starts_with('/')
}

/// Makes an address absolute: a path on this server is prefixed with `base`, which has no trailing slash.
pub fn absolute_address<'a>(base: &str, address: Cow<'a, str>) -> Cow<'a, str> {
    if address.starts_with('/') { Cow::Owned(format!("{base}{address}")) } else { address }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logos_of_other_servers_are_shown_by_this_one() {
        assert_eq!(logo_of(None, 3), "/api/livetv/logos/3");
        assert_eq!(logo_of(Some("/art/x.png"), 3), "/art/x.png");
        let address = format!("/api/livetv/logos/3?v={}", image_version("https://art.example/x"));
        assert_eq!(logo_of(Some("https://art.example/x"), 3), address);
        assert_eq!(logo_of(Some("https://a:b@art.example/x"), 3), address, "without credentials");
        assert_eq!(logo_of(Some("https://art.example/x?token=1"), 3), "/api/livetv/logos/3");
    }
}
