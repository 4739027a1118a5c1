//! External addresses. They may contain credentials, so their text form shows only the server.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use url::{Host, Url, form_urlencoded};

/// Maximum length of an address, bytes.
const MAX_BYTES: usize = 4096;

/// The path of an address whose printed form was parsed again.
const PRINTED_PATH: &str = "/%E2%80%A6";

/// The default port of RTSP (RFC 2326 section 3.2).
const RTSP_PORT: u16 = 554;

/// An http or https address, or for streams one of SRT or RTSP. `Display` and `Debug` show only scheme, host and port,
/// because paths and queries contain passwords as often as the userinfo does. The stored form is complete.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Address(Url);

impl Address {
    /// The error is the reason it is invalid; it repeats nothing of the address.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > MAX_BYTES {
            return Err("must not be longer than 4096 bytes");
        }
        if text.chars().any(char::is_control) {
            return Err("must not contain control characters");
        }
        let url = Url::parse(text.trim()).map_err(|_| "must be an address, e.g. https://tv.example/live.m3u8")?;
        Self::from_http_url(url)
    }

    /// The address of a stream. It may also be `srt://host:port` in caller mode (a listener would open this machine to
    /// everyone), or `rtsp://host` of a camera, with user name and password if needed.
    pub fn parse_stream(text: &str) -> Result<Self, &'static str> {
        let scheme = text.trim_start().split_once("://").map_or("", |(scheme, _)| scheme).to_ascii_lowercase();
        match scheme.as_str() {
            "srt" => Self::parse_srt(text),
            "rtsp" => Self::parse_rtsp(text),
            "rtsps" => Err("must not be RTSP over TLS (rtsps), because camera certificates are self-signed; use rtsp"),
            _ => Self::parse(text).map_err(|why| match why {
                "must begin with http:// or https://" => "must begin with http://, https://, srt:// or rtsp://",
                why => why,
            }),
        }
    }

    fn parse_srt(text: &str) -> Result<Self, &'static str> {
        let url = Self::parse_non_http(text)?;
        if url.port().is_none() {
            return Err("must have a port, e.g. srt://tv.example:9000");
        }
        let parameter = |name: &str| url.query_pairs().find(|(key, _)| key == name).map(|(_, text)| text.into_owned());
        if parameter("mode").is_some_and(|mode| mode != "caller") {
            return Err("must use mode=caller, or no mode");
        }
        if parameter("passphrase").is_some_and(|secret| !(10..=79).contains(&secret.len())) {
            return Err("must have a passphrase of 10 to 79 bytes, or none");
        }
        Ok(Self(url))
    }

    fn parse_rtsp(text: &str) -> Result<Self, &'static str> {
        let url = Self::parse_non_http(text)?;
        match url.port() {
            Some(0) => Err("must not have port 0"),
            _ => Ok(Self(url)),
        }
    }

    /// Parses an address that is not http and normalizes its host.
    fn parse_non_http(text: &str) -> Result<Url, &'static str> {
        if text.len() > MAX_BYTES || text.chars().any(char::is_control) {
            return Err("must not be longer than 4096 bytes or contain control characters");
        }
        let mut url = Url::parse(text.trim()).map_err(|_| "must be an address, e.g. rtsp://camera.example/live")?;
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or("must name a host")?;
        // A host can be written in many ways; parse it as http would.
        let normalized = Url::parse(&format!("http://{host}/")).map_err(|_| "must name a host")?;
        url.set_host(normalized.host_str()).map_err(|_| "must name a host")?;
        url.set_fragment(None);
        Ok(url)
    }

    pub fn is_rtsp(&self) -> bool {
        self.0.scheme() == "rtsp"
    }

    pub fn is_srt(&self) -> bool {
        self.0.scheme() == "srt"
    }

    /// Resolves a redirect or an entry of a playlist against this address.
    pub fn resolve(&self, text: &str) -> Result<Self, &'static str> {
        if text.len() > MAX_BYTES {
            return Err("must not be longer than 4096 bytes");
        }
        Self::from_http_url(self.0.join(text).map_err(|_| "must be an address")?)
    }

    fn from_http_url(mut url: Url) -> Result<Self, &'static str> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err("must begin with http:// or https://");
        }
        if url.host_str().is_none_or(str::is_empty) || url.port_or_known_default().is_none_or(|port| port == 0) {
            return Err("must name a host");
        }
        url.set_fragment(None);
        Ok(Self(url))
    }

    /// The complete address, for connecting.
    pub fn full_url(&self) -> &Url {
        &self.0
    }

    /// Host as written, and port.
    pub fn host_and_port(&self) -> (Host<&str>, u16) {
        let host = match self.0.host() {
            // For schemes other than http, the parser returns an IPv4 address as a name.
            Some(Host::Domain(name)) => name.parse().map_or(Host::Domain(name), Host::Ipv4),
            host => host.unwrap_or(Host::Domain("")),
        };
        let default_port = if self.is_rtsp() { RTSP_PORT } else { 0 };
        (host, self.0.port_or_known_default().unwrap_or(default_port))
    }

    /// The stored address if this is its printed form, because clients send back what they received. The printed form of
    /// another address is an error with the reason.
    pub fn or_stored(self, stored: Option<&Self>) -> Result<Self, &'static str> {
        match stored {
            _ if self.0.path() != PRINTED_PATH => Ok(self),
            Some(stored) if stored.to_string() == self.to_string() => Ok(stored.clone()),
            _ => Err("must be the complete address, not the shortened one that answers contain"),
        }
    }

    /// The address of the server alone: what users who are not admins see.
    pub fn server_address(&self) -> String {
        let port = self.0.port().map_or_else(String::new, |port| format!(":{port}"));
        format!("{}://{}{port}/", self.0.scheme(), self.0.host_str().unwrap_or_default())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_userinfo = !self.0.username().is_empty() || self.0.password().is_some();
        let is_server_alone = !has_userinfo && matches!((self.0.path(), self.0.query()), ("/", None));
        write!(f, "{}{}", self.server_address(), if is_server_alone { "" } else { "…" })
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Substrings of query parameter names that contain a credential.
const CREDENTIAL_NAMES: [&str; 10] =
    ["user", "login", "pass", "pwd", "token", "auth", "secret", "key", "credential", "signature"];

/// The public form of an image address: without user name and password. None if its query contains a credential, because it
/// would not work without.
pub fn without_credentials(text: &str) -> Option<Cow<'_, str>> {
    // A guide has thousands of addresses, and almost none needs a change.
    let Some(first) = text.find(['@', '?', '#']) else { return Some(Cow::Borrowed(text)) };
    let query = text[first..].find(['?', '#']).map_or("", |at| &text[first + at + 1..]);
    let is_credential = |name: &str| {
        let name = name.to_ascii_lowercase();
        CREDENTIAL_NAMES.iter().any(|word| name.contains(word))
    };
    if form_urlencoded::parse(query.as_bytes()).any(|(name, _)| is_credential(&name)) {
        return None;
    }
    if text.starts_with('/') {
        return Some(Cow::Borrowed(text));
    }
    let mut url = Url::parse(text).ok()?;
    if url.username().is_empty() && url.password().is_none() {
        return Some(Cow::Borrowed(text));
    }
    url.set_username("").ok()?;
    url.set_password(None).ok()?;
    Some(Cow::Owned(url.into()))
}

/// The stored form is the complete address.
impl Serialize for Address {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.0.as_str())
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse_stream(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_shown_without_credentials_or_not_at_all() {
        for (text, shown) in [
            ("/assets/1.png", Some("/assets/1.png")),
            ("/assets/1.png?v=2", Some("/assets/1.png?v=2")),
            ("http://i.example/1.png?a=1&b=2", Some("http://i.example/1.png?a=1&b=2")),
            ("http://i.example/@me.png", Some("http://i.example/@me.png")),
            ("http://ada:se%40cret@i.example:8080/1.png?w=5", Some("http://i.example:8080/1.png?w=5")),
            ("http://ada@i.example/1.png", Some("http://i.example/1.png")),
            ("http://i.example/logo.php?UserName=ada&password=secret", None),
            ("http://ada:secret@i.example/1.png?w=1&access_token=secret", None),
            ("http://i.example/1.png?%74oken=secret", None),
            ("/logo?api_key=secret", None),
            ("http://i.example/1.png#token=secret", None),
        ] {
            assert_eq!(without_credentials(text).as_deref(), shown, "{text}");
        }
        let list = Address::parse("http://ada:secret@tv.example:8080/get.php?username=ada&password=secret").unwrap();
        assert_eq!(list.server_address(), "http://tv.example:8080/");
    }

    #[test]
    fn printed_forms_reveal_no_secret() {
        for (text, shown) in [
            ("http://ada:secret@tv.example:8080/live/ada/secret/12.ts", "http://tv.example:8080/…"),
            ("https://tv.example/get.php?username=ada&password=secret", "https://tv.example/…"),
            ("https://tv.example?token=secret", "https://tv.example/…"),
            ("https://ada:secret@tv.example/", "https://tv.example/…"),
            ("https://tv.example/#secret", "https://tv.example/"),
            ("HTTPS://TV.example:443", "https://tv.example/"),
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!(address.to_string(), shown);
            assert_eq!(format!("{address:?}"), format!("\"{shown}\""));
            let stored = serde_json::to_string(&address).unwrap();
            assert_eq!(serde_json::from_str::<Address>(&stored).unwrap(), address);
            let received = Address::parse(shown).unwrap();
            assert_eq!(received.or_stored(Some(&address)), Ok(address), "sent back as printed");
        }
        for wrong in
            ["", "tv.example/a", "ftp://tv.example/", "file:///etc/passwd", "http://", "https://a b/", "http:///"]
        {
            let refused = Address::parse(wrong);
            assert!(refused.is_err(), "{wrong}: {refused:?}");
        }
        assert!(Address::parse(&format!("http://a.example/{}", "a".repeat(5000))).is_err());
        let srt = Address::parse_stream("SRT://0x7f.1:9000?streamid=a&passphrase=secret-secret").unwrap();
        assert_eq!((srt.to_string().as_str(), srt.is_srt()), ("srt://127.0.0.1:9000/…", true));
        assert_eq!(srt.host_and_port(), (Host::Ipv4([127, 0, 0, 1].into()), 9000));
        assert_eq!(serde_json::from_str::<Address>(&serde_json::to_string(&srt).unwrap()).unwrap(), srt);
        for wrong in ["srt://:9000", "srt://a.example", "srt://a.example:1?mode=listener", "srt://a:1?passphrase=short"]
        {
            assert!(Address::parse_stream(wrong).is_err(), "{wrong}");
        }
        assert!(Address::parse("srt://a.example:9000").is_err(), "not valid for lists, guides and redirects");
        let camera = Address::parse_stream("RTSP://ada:se%40cret@0x7f.1/user=ada_password=secret#x").unwrap();
        assert_eq!((camera.to_string().as_str(), camera.is_rtsp()), ("rtsp://127.0.0.1/…", true));
        assert_eq!(camera.host_and_port(), (Host::Ipv4([127, 0, 0, 1].into()), 554));
        assert_eq!(serde_json::from_str::<Address>(&serde_json::to_string(&camera).unwrap()).unwrap(), camera);
        for wrong in
            ["rtsp://", "rtsp:camera", "rtsp://:554/", "rtsp://a.example:0/", "rtsp://a b/", "rtsps://a.example/"]
        {
            assert!(Address::parse_stream(wrong).is_err(), "{wrong}");
        }
        assert!(Address::parse("rtsp://a.example/").is_err(), "not valid for lists, guides and redirects");
        for stored in [&srt, &camera] {
            let received = Address::parse_stream(&stored.to_string()).unwrap();
            assert_eq!(received.clone().or_stored(Some(stored)).as_ref(), Ok(stored));
            assert!(received.clone().or_stored(None).is_err());
            let other = Address::parse_stream("http://127.0.0.1/a").unwrap();
            assert!(received.or_stored(Some(&other)).is_err());
            assert_eq!(other.clone().or_stored(Some(stored)), Ok(other));
        }
        let base = Address::parse("http://a.example/x/live.m3u8?t=1").unwrap();
        assert_eq!(base.resolve("../b.ts").unwrap().full_url().as_str(), "http://a.example/b.ts");
        assert!(base.resolve("file:///etc/passwd").is_err() && base.resolve("gopher://a.example/").is_err());
    }
}
