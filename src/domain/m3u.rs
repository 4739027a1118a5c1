//! The lineup as an M3U playlist.

use crate::domain::channel::Channel;
use crate::domain::lineup::{ChannelNaming, absolute_address, logo_address};
use crate::domain::live_window::CATCHUP_MS;

pub mod entry_matching;
pub mod parse;

#[derive(Clone, Debug)]
pub struct M3uOptions {
    /// Base URL of this server, without a trailing slash.
    pub base_url: String,
    pub naming: ChannelNaming,
    /// URL of the matching XMLTV guide.
    pub guide_url: String,
    pub catchup: Catchup,
}

named_values! {
    /// How the playlist announces catch-up.
    #[derive(Default)]
    pub enum Catchup {
        /// With a complete catch-up URL.
        #[default]
        Default = "default",
        /// With a suffix to append to the channel's URL.
        Append = "append",
        /// With two query parameters that players already know.
        Shift = "shift",
        None = "none",
    }
}

pub fn format_header(options: &M3uOptions) -> String {
    let url = &options.guide_url;
    let mut attributes = format_attribute("url-tvg", url) + &format_attribute("x-tvg-url", url);
    if options.catchup != Catchup::None {
        attributes += " catchup-correction=\"0\"";
    }
    format!("#EXTM3U{attributes}\n")
}

/// Formats the two lines of a channel. `query` is the query string of its link, such as a token, without a question mark.
pub fn format_entry(channel: &Channel, options: &M3uOptions, query: &str) -> String {
    let (settings, id) = (&channel.settings, options.naming.id_of(channel));
    let base = &options.base_url;
    // Whether an external stream has video or audio is only known once it is received, so no codecs are listed.
    let (video, audio) = if channel.external.is_some() { ("", "") } else { ("h264", "aac") };
    let mut line = String::from("#EXTINF:-1");
    for (name, value) in [
        ("tvg-id", &*id),
        ("tvg-chno", &settings.number.to_string()),
        ("tvg-name", &settings.name),
        ("tvg-logo", &absolute_address(base, logo_address(channel))),
        ("group-title", &settings.category),
        ("channel-id", &channel.tvg_id),
        ("CUID", &channel.tvg_id),
        ("tvc-stream-vcodec", video),
        ("tvc-stream-acodec", audio),
    ] {
        line.push_str(&format_attribute(name, value));
    }
    let (link, catchup_query) = (format!("{base}/api/livetv/watch/{}/live.m3u8", channel.id), "at={utc}&end={utcend}");
    // External channels are not kept, so there is no catch-up.
    let catchup = if channel.external.is_some() { Catchup::None } else { options.catchup };
    let (kind, source) = match (catchup, query) {
        (Catchup::None, _) => ("", String::new()),
        (Catchup::Default, "") => ("default", format!("{link}?{catchup_query}")),
        (Catchup::Default, query) => ("default", format!("{link}?{catchup_query}&{query}")),
        (Catchup::Append, "") => ("append", format!("?{catchup_query}")),
        (Catchup::Append, _) => ("append", format!("&{catchup_query}")),
        (Catchup::Shift, _) => ("shift", String::new()),
    };
    let days = if kind.is_empty() { String::new() } else { (CATCHUP_MS / 86_400_000).to_string() };
    for (name, value) in [("catchup", kind), ("catchup-source", &source), ("catchup-days", &days)] {
        line.push_str(&format_attribute(name, value));
    }
    // Jellyfin reads the text after the last comma as the name.
    let display_name: String =
        settings.name.chars().map(|c| if c == ',' { ' ' } else { c }).filter(|c| !c.is_control()).collect();
    let display_name = display_name.split_whitespace().collect::<Vec<_>>().join(" ");
    match query {
        "" => format!("{line},{display_name}\n{link}\n"),
        query => format!("{line},{display_name}\n{link}?{query}\n"),
    }
}

/// Formats an attribute with a leading space, or nothing for an empty value. M3U cannot escape quotes.
fn format_attribute(name: &str, value: &str) -> String {
    let value: String = value.chars().filter(|c| !c.is_control()).map(|c| if c == '"' { '\'' } else { c }).collect();
    if value.trim().is_empty() { String::new() } else { format!(" {name}=\"{value}\"") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::address::Address;
    use crate::domain::channel::tests::channel;
    use crate::domain::external::{ExternalChannel, ExternalOrigin, ExternalStream};
    use crate::domain::rights::{self, Clearance};

    #[test]
    fn names_cannot_break_a_line_or_an_attribute() {
        let mut hostile = channel(12);
        hostile.settings.name = "News, \"late\",\u{7} und  spät 🎬".into();
        hostile.settings.category = "A\"B\nC".into();
        hostile.settings.logo_url = Some("https://art.example/1.png".into());
        let style = M3uOptions {
            base_url: "http://tv:8470".into(),
            naming: ChannelNaming::Stable,
            guide_url: "http://tv:8470/g".into(),
            catchup: Catchup::None,
        };
        assert_eq!(format_header(&style), "#EXTM3U url-tvg=\"http://tv:8470/g\" x-tvg-url=\"http://tv:8470/g\"\n");
        assert_eq!(
            format_entry(&hostile, &style, "token=t"),
            "#EXTINF:-1 tvg-id=\"ch-12.home\" tvg-chno=\"12\" tvg-name=\"News, 'late', und  spät 🎬\" \
             tvg-logo=\"http://tv:8470/api/livetv/logos/12?v=ad55c40ec2770337\" group-title=\"A'BC\" channel-id=\"ch-12.home\" \
             CUID=\"ch-12.home\" tvc-stream-vcodec=\"h264\" tvc-stream-acodec=\"aac\",News \"late\" und spät 🎬\n\
             http://tv:8470/api/livetv/watch/12/live.m3u8?token=t\n"
        );
        let link = "http://tv:8470/api/livetv/watch/12/live.m3u8";
        for (catchup, query, kind, source) in [
            (Catchup::Default, "token=t", "default", format!("{link}?at={{utc}}&end={{utcend}}&token=t")),
            (Catchup::Append, "token=t", "append", "&at={utc}&end={utcend}".to_owned()),
            (Catchup::Append, "", "append", "?at={utc}&end={utcend}".to_owned()),
        ] {
            let line = format_entry(&hostile, &M3uOptions { catchup, ..style.clone() }, query);
            let expected = format!(" catchup=\"{kind}\" catchup-source=\"{source}\" catchup-days=\"7\",");
            assert!(line.contains(&expected), "{line}");
        }
        let line = format_entry(&hostile, &M3uOptions { catchup: Catchup::Shift, ..style.clone() }, "");
        assert!(line.contains(" catchup=\"shift\" catchup-days=\"7\","), "{line}");
        let mut external = channel(4);
        let url = Address::parse("http://tv.example/4.ts").unwrap();
        let clearance = Clearance::from_claim(rights::tests::sample_claim(), None, false, "ada", 5).unwrap();
        external.external = Some(Box::new(ExternalChannel {
            stream: ExternalStream { url, failover: Vec::new(), user_agent: None },
            origin: ExternalOrigin::Own { clearance, imported: false },
            guide_channel: None,
        }));
        external.settings.logo_url = Some("http://ada:secret@art.example/4.png".into());
        let line = format_entry(&external, &style, "");
        assert!(!line.contains("codec") && !line.contains("secret"), "{line}");
        let plain = format_entry(&channel(3), &M3uOptions { naming: ChannelNaming::Number, ..style }, "");
        assert!(plain.starts_with("#EXTINF:-1 tvg-id=\"3\" tvg-chno=\"3\" tvg-name=\"Channel 3\" "), "{plain}");
        assert!(plain.contains(" tvg-logo=\"http://tv:8470/api/livetv/logos/3\"") && !plain.contains("group-title"));
        assert!(plain.ends_with(",Channel 3\nhttp://tv:8470/api/livetv/watch/3/live.m3u8\n"), "{plain}");
    }
}
