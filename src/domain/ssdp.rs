//! SSDP: parses searches, writes responses and announcements, so that programs find the tuner in the home network (UPnP
//! Device Architecture 1.1, section 1).

use std::fmt::Write;
use std::net::Ipv4Addr;

/// Multicast address of searches and announcements.
pub const MULTICAST_ADDRESS: Ipv4Addr = Ipv4Addr::new(239, 255, 255, 250);
pub const PORT: u16 = 1900;

/// Lifetime of an announcement, seconds; the minimum of the specification.
const MAX_AGE_SECONDS: u32 = 1800;

const TARGET_ALL: &str = "ssdp:all";

const DEVICE_TYPE: &str = "urn:schemas-upnp-org:device:MediaServer:1";

/// Maximum delay of a response, seconds (section 1.3.2).
const MAX_WAIT_SECONDS: u32 = 5;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnouncedDevice {
    /// Without `uuid:`.
    pub id: String,
    pub location: String,
    pub program: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    pub target: String,
    /// Seconds over which responses are to be spread; 0 for a search sent to this server alone.
    pub max_wait_seconds: u32,
}

impl Search {
    /// Parses a datagram; None if it is not a search.
    pub fn parse(datagram: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(datagram).ok()?;
        let mut lines = text.split("\r\n");
        lines.next().filter(|line| *line == "M-SEARCH * HTTP/1.1")?;
        let (mut target, mut wait, mut discovers) = (None, 0, false);
        for line in lines.take_while(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':')?;
            let value = value.trim();
            match name.trim().to_ascii_uppercase().as_str() {
                "ST" => target = Some(value.to_owned()),
                "MX" => wait = value.parse::<u32>().ok()?.min(MAX_WAIT_SECONDS),
                "MAN" => discovers = value == "\"ssdp:discover\"",
                _ => {}
            }
        }
        target.filter(|_| discovers).map(|target| Self { target, max_wait_seconds: wait })
    }
}

impl AnnouncedDevice {
    /// Its search targets, each with its unique name.
    fn search_targets(&self) -> [(String, String); 3] {
        let own = format!("uuid:{}", self.id);
        let named = |kind: &str| (kind.to_owned(), format!("{own}::{kind}"));
        [named("upnp:rootdevice"), (own.clone(), own.clone()), named(DEVICE_TYPE)]
    }

    /// The responses to a search, one datagram each; empty if the search is for another device type.
    pub fn responses(&self, search: &Search) -> Vec<String> {
        let is_sought = |kind: &str| search.target == TARGET_ALL || search.target == kind;
        let response = |(kind, unique): (String, String)| {
            let mut text = "HTTP/1.1 200 OK\r\n".to_owned();
            self.write_headers(&mut text);
            let _ = write!(text, "EXT:\r\nST: {kind}\r\nUSN: {unique}\r\n\r\n");
            text
        };
        self.search_targets().into_iter().filter(|(kind, _)| is_sought(kind)).map(response).collect()
    }

    /// Announcements that the device is available.
    pub fn alive_announcements(&self) -> Vec<String> {
        self.announcements("ssdp:alive")
    }

    /// Announcements that the device is leaving.
    pub fn byebye_announcements(&self) -> Vec<String> {
        self.announcements("ssdp:byebye")
    }

    fn announcements(&self, subtype: &str) -> Vec<String> {
        let announcement = |(kind, unique): (String, String)| {
            let mut text = format!("NOTIFY * HTTP/1.1\r\nHOST: {MULTICAST_ADDRESS}:{PORT}\r\n");
            if subtype == "ssdp:alive" {
                self.write_headers(&mut text);
            }
            let _ = write!(text, "NT: {kind}\r\nNTS: {subtype}\r\nUSN: {unique}\r\n\r\n");
            text
        };
        self.search_targets().into_iter().map(announcement).collect()
    }

    fn write_headers(&self, text: &mut String) {
        let Self { location, program, .. } = self;
        let _ = write!(text, "CACHE-CONTROL: max-age={MAX_AGE_SECONDS}\r\nLOCATION: {location}\r\n");
        let _ = write!(text, "SERVER: Linux UPnP/1.1 {program}\r\n");
    }
}

/// Whether a search comes from a home network. Responses to other addresses could be abused to flood a third party.
pub fn is_local_network(sender: Ipv4Addr) -> bool {
    sender.is_private() || sender.is_link_local() || sender.is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(target: &str) -> Vec<u8> {
        format!("M-SEARCH * HTTP/1.1\r\nHOST: 239.255.255.250:1900\r\nman: \"ssdp:discover\"\r\nMX: 9\r\nST:{target}\r\n\r\n")
            .into_bytes()
    }

    #[test]
    fn a_search_is_read_and_nothing_else_is() {
        let read = Search::parse(&search("ssdp:all")).unwrap();
        assert_eq!(read, Search { target: "ssdp:all".into(), max_wait_seconds: 5 });
        let whole = String::from_utf8(search("ssdp:all")).unwrap();
        for other in [
            whole.replace("M-SEARCH *", "NOTIFY *"),
            whole.replace("discover", "alive"),
            whole.replace("ST:", "SX:"),
            whole.replace("MX: 9", "MX: many"),
            whole.replace("MX: 9", "nothing"),
            whole.replace("\r\n", "\n"),
            String::new(),
        ] {
            assert_eq!(Search::parse(other.as_bytes()), None, "{other}");
        }
        assert_eq!(Search::parse(&[0xff; 64]), None);
    }

    #[test]
    fn a_device_answers_to_its_names_and_to_no_other() {
        let device = AnnouncedDevice {
            id: "1-2".into(),
            location: "http://192.168.1.2/x".into(),
            program: "Hearthcast/1".into(),
        };
        let to = |target: &str| device.responses(&Search::parse(&search(target)).unwrap());
        assert_eq!(
            to("upnp:rootdevice"),
            ["HTTP/1.1 200 OK\r\nCACHE-CONTROL: max-age=1800\r\nLOCATION: http://192.168.1.2/x\r\n\
              SERVER: Linux UPnP/1.1 Hearthcast/1\r\nEXT:\r\nST: upnp:rootdevice\r\n\
              USN: uuid:1-2::upnp:rootdevice\r\n\r\n"]
        );
        let targets = ["uuid:1-2", DEVICE_TYPE, TARGET_ALL, "uuid:1-3", "upnp:root"];
        assert_eq!(targets.map(|target| to(target).len()), [1, 1, 3, 0, 0]);
        assert_eq!((device.alive_announcements().len(), device.byebye_announcements().len()), (3, 3));
        let (alive, byebye) = (device.alive_announcements(), device.byebye_announcements());
        assert!(alive.iter().all(|text| text.contains("LOCATION: ") && text.contains("ssdp:alive")));
        assert!(byebye.iter().all(|text| !text.contains("LOCATION: ") && text.contains("ssdp:byebye")));
    }

    #[test]
    fn only_a_home_network_is_near() {
        let near = ["192.168.1.2", "10.0.0.1", "172.16.3.4", "169.254.1.1", "127.0.0.1"];
        assert!(near.iter().all(|address| is_local_network(address.parse().unwrap())));
        let far = ["8.8.8.8", "172.32.0.1", "100.64.0.1", "0.0.0.0"];
        assert!(far.iter().all(|address| !is_local_network(address.parse().unwrap())));
    }
}
