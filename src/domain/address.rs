//! An address elsewhere, which may hold a password: no way of printing it tells more than where it leads.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use url::{Host, Url};

/// Longest address, bytes.
const MAX_BYTES: usize = 4096;

/// An http or https address. Text and debug forms show scheme, host and port alone, for paths and queries hold
/// passwords as often as the place that was made for them; what is stored is whole.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Address(Url);

impl Address {
    /// # Errors
    /// Why it is none, in words that repeat nothing of it.
    pub fn read(text: &str) -> Result<Self, &'static str> {
        if text.len() > MAX_BYTES {
            return Err("must not be longer than 4096 bytes");
        }
        if text.chars().any(char::is_control) {
            return Err("must not hold control characters");
        }
        let url = Url::parse(text.trim()).map_err(|_| "must be an address, e.g. https://tv.example/live.m3u8")?;
        Self::of(url)
    }

    /// Where a redirect or an entry of a list leads from here.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn join(&self, text: &str) -> Result<Self, &'static str> {
        if text.len() > MAX_BYTES {
            return Err("must not be longer than 4096 bytes");
        }
        Self::of(self.0.join(text).map_err(|_| "must be an address")?)
    }

    fn of(mut url: Url) -> Result<Self, &'static str> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err("must begin with http:// or https://");
        }
        if url.host_str().is_none_or(str::is_empty) || url.port_or_known_default().is_none_or(|port| port == 0) {
            return Err("must name a host");
        }
        url.set_fragment(None);
        Ok(Self(url))
    }

    /// All of it, for the one who connects.
    pub fn secret(&self) -> &Url {
        &self.0
    }

    /// Host as written, and port.
    pub fn host(&self) -> (Host<&str>, u16) {
        let host = self.0.host().unwrap_or(Host::Domain(""));
        (host, self.0.port_or_known_default().unwrap_or(0))
    }

    /// Whether both lead to the same server by the same scheme.
    pub fn same_origin(&self, other: &Self) -> bool {
        self.0.origin() == other.0.origin()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.0.scheme(), self.0.host_str().unwrap_or_default())?;
        if let Some(port) = self.0.port() {
            write!(f, ":{port}")?;
        }
        match (self.0.path(), self.0.query()) {
            ("/", None) => f.write_str("/"),
            _ => f.write_str("/…"),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// For the store: all of it.
impl Serialize for Address {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.0.as_str())
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::read(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_printed_tells_a_secret() {
        for (text, shown) in [
            ("http://ada:secret@tv.example:8080/live/ada/secret/12.ts", "http://tv.example:8080/…"),
            ("https://tv.example/get.php?username=ada&password=secret", "https://tv.example/…"),
            ("https://tv.example?token=secret", "https://tv.example/…"),
            ("https://tv.example/#secret", "https://tv.example/"),
            ("HTTPS://TV.example:443", "https://tv.example/"),
        ] {
            let address = Address::read(text).unwrap();
            assert_eq!(address.to_string(), shown);
            assert_eq!(format!("{address:?}"), format!("\"{shown}\""));
            let stored = serde_json::to_string(&address).unwrap();
            assert_eq!(serde_json::from_str::<Address>(&stored).unwrap(), address);
        }
        for wrong in
            ["", "tv.example/a", "ftp://tv.example/", "file:///etc/passwd", "http://", "https://a b/", "http:///"]
        {
            let refused = Address::read(wrong);
            assert!(refused.is_err(), "{wrong}: {refused:?}");
        }
        assert!(Address::read(&format!("http://a.example/{}", "a".repeat(5000))).is_err());
        let base = Address::read("http://a.example/x/live.m3u8?t=1").unwrap();
        assert_eq!(base.join("../b.ts").unwrap().secret().as_str(), "http://a.example/b.ts");
        assert!(base.join("file:///etc/passwd").is_err() && base.join("gopher://a.example/").is_err());
        assert!(base.same_origin(&base.join("/y").unwrap()) && !base.same_origin(&base.join("//b.example/").unwrap()));
    }
}
