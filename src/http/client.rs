//! The client address of a request: its peer, or the address a trusted proxy reports in `X-Forwarded-For`.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use http::{HeaderMap, HeaderName};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The client's address.
///
/// Every proxy appends the address of its own peer, either to the list of the last header line or as a line of its own.
/// So all lines together are one list, and only its right end is written by proxies we trust. The list is read from the
/// right, skipping trusted proxies; the first other address is the client. Reading stops at an entry that is not an
/// address; the proxy that wrote the entry then counts as the client. RFC 7239 `Forwarded` is not read.
pub fn address(headers: &HeaderMap, peer: IpAddr, trusted: &[IpAddr]) -> IpAddr {
    let mut client = peer.to_canonical();
    let header_lines = headers.get_all(X_FORWARDED_FOR).into_iter().rev();
    let mut entries = header_lines.flat_map(|line| line.to_str().unwrap_or_default().rsplit(','));
    while trusted.contains(&client)
        && let Some(forwarded) = entries.next().and_then(parse)
    {
        client = forwarded;
    }
    client
}

/// An address with or without a port, as proxies write it; IPv6 with a port is in brackets.
fn parse(entry: &str) -> Option<IpAddr> {
    let entry = entry.trim();
    let bracketed = || entry.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    let with_port = || entry.parse::<SocketAddr>().ok().map(|socket| socket.ip());
    let address = entry.parse::<IpAddr>().ok().or_else(with_port).or_else(bracketed)?;
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_rightmost_address_that_is_no_trusted_proxy_is_the_client() {
        let trusted: Vec<IpAddr> = ["127.0.0.1", "10.0.0.2", "fd00::2"].map(|ip| ip.parse().unwrap()).into();
        let rows: [(&str, &[&str], &str); 17] = [
            ("192.0.2.9", &["198.51.100.1"], "192.0.2.9"),
            ("127.0.0.1", &[], "127.0.0.1"),
            ("127.0.0.1", &["198.51.100.1"], "198.51.100.1"),
            ("127.0.0.1", &["203.0.113.7, 198.51.100.1"], "198.51.100.1"),
            // A proxy that appends a line instead: the client forged the first one.
            ("127.0.0.1", &["203.0.113.7", "198.51.100.1"], "198.51.100.1"),
            ("127.0.0.1", &["203.0.113.7, 203.0.113.8", " 198.51.100.1 "], "198.51.100.1"),
            // Two trusted proxies, in one line or in two.
            ("127.0.0.1", &["203.0.113.7, 198.51.100.1, 10.0.0.2"], "198.51.100.1"),
            ("127.0.0.1", &["203.0.113.7, 198.51.100.1", "10.0.0.2"], "198.51.100.1"),
            ("127.0.0.1", &["10.0.0.2"], "10.0.0.2"),
            ("::ffff:127.0.0.1", &["198.51.100.1"], "198.51.100.1"),
            ("127.0.0.1", &["::ffff:198.51.100.1"], "198.51.100.1"),
            ("127.0.0.1", &["198.51.100.1:4711"], "198.51.100.1"),
            ("127.0.0.1", &["2001:db8::1, [fd00::2]:443"], "2001:db8::1"),
            ("127.0.0.1", &["[2001:db8::1]"], "2001:db8::1"),
            // An entry that is not an address is not skipped: everything left of it may be forged.
            ("127.0.0.1", &["203.0.113.7, unknown"], "127.0.0.1"),
            ("127.0.0.1", &["203.0.113.7", ""], "127.0.0.1"),
            ("127.0.0.1", &["203.0.113.7, junk, 10.0.0.2"], "10.0.0.2"),
        ];
        for (peer, lines, client) in rows {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(X_FORWARDED_FOR, HeaderValue::from_str(line).unwrap());
            }
            assert_eq!(address(&headers, peer.parse().unwrap(), &trusted).to_string(), client, "{peer} {lines:?}");
        }
        let mut headers = HeaderMap::new();
        headers.append(X_FORWARDED_FOR, HeaderValue::from_static("203.0.113.7"));
        headers.append(X_FORWARDED_FOR, HeaderValue::from_bytes(b"198.51.100.\xff").unwrap());
        assert_eq!(address(&headers, trusted[0], &trusted), trusted[0], "not even text");
    }
}
