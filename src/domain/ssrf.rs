//! Non-global addresses: this machine, its network, and everything that is not a public internet address. External requests
//! to them are refused (protection against SSRF).
//!
//! The list follows the special-purpose registries of RFC 6890 and its updates. An IPv6 address that carries an IPv4 one
//! (mapped, translated, 6to4, Teredo, ISATAP) counts as that IPv4 address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Non-global addresses and hosts from which the operator allows sources (`allowed_sources`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedSources {
    networks: Vec<(IpAddr, u8)>,
    hosts: Vec<String>,
}

impl AllowedSources {
    /// Parses addresses, networks (`192.168.1.0/24`) and host names. The error names the first other item.
    pub fn parse(items: &[String]) -> Result<Self, String> {
        let mut allowed = Self::default();
        for item in items {
            let (address, bits) = item.split_once('/').map_or((item.as_str(), None), |(a, bits)| (a, Some(bits)));
            let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
            match (address.parse::<IpAddr>(), bits.map(str::parse::<u8>)) {
                (Ok(ip), None) => allowed.networks.push((ip, address_bits(ip))),
                (Ok(ip), Some(Ok(bits))) if bits <= address_bits(ip) => allowed.networks.push((ip, bits)),
                (Err(_), None) if !item.is_empty() && item.bytes().all(is_name_byte) => {
                    allowed.hosts.push(normalize_host(item))
                }
                _ => return Err(format!("{item:?} is neither an address, a network nor a host name")),
            }
        }
        Ok(allowed)
    }

    pub fn allows_host(&self, name: &str) -> bool {
        self.hosts.contains(&normalize_host(name))
    }

    /// Whether an address, or its network, is listed.
    fn allows_address(&self, ip: IpAddr) -> bool {
        let number = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => u128::from(u32::from(ip)),
            IpAddr::V6(ip) => u128::from(ip),
        };
        self.networks.iter().any(|(network, bits)| {
            let host_bits = u32::from(address_bits(*network) - bits);
            address_bits(*network) == address_bits(ip)
                && number(*network).checked_shr(host_bits).unwrap_or(0)
                    == number(ip).checked_shr(host_bits).unwrap_or(0)
        })
    }

    /// Why a connection to an address is refused; None if it is allowed.
    pub fn refusal_reason(&self, ip: IpAddr) -> Option<&'static str> {
        let canonical = ip.to_canonical();
        if self.allows_address(ip) || self.allows_address(canonical) { None } else { non_global_reason(ip) }
    }
}

fn address_bits(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

/// A host name in the form used for comparison.
fn normalize_host(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// Why an address is not global; None if it is.
fn non_global_reason(ip: IpAddr) -> Option<&'static str> {
    match ip {
        IpAddr::V4(ip) => non_global_reason_v4(ip),
        IpAddr::V6(ip) => non_global_reason_v6(ip),
    }
}

fn non_global_reason_v4(ip: Ipv4Addr) -> Option<&'static str> {
    Some(match ip.octets() {
        [0, ..] => "unspecified",
        [127, ..] => "loopback",
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => "a private network",
        [100, 64..=127, ..] => "carrier-grade NAT (100.64.0.0/10)",
        [169, 254, ..] => "link-local",
        [192, 0, 0, _] => "reserved for protocols",
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => "reserved for documentation",
        [192, 88, 99, _] => "a relay",
        [198, 18..=19, ..] => "reserved for benchmarks",
        [224..=239, ..] => "multicast",
        [240..=255, ..] => "reserved",
        _ => return None,
    })
}

fn non_global_reason_v6(ip: Ipv6Addr) -> Option<&'static str> {
    let parts = ip.segments();
    let v4 = |high: u16, low: u16| non_global_reason_v4(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)));
    match parts {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("unspecified"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("loopback"),
        // Mapped, translated (RFC 2765), NAT64 (RFC 6052).
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => v4(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        [0x2002, high, low, ..] => v4(high, low).or(Some("a relay")),
        // Teredo, ORCHID and other protocols (RFC 2928).
        [0x2001, 0..=0x1ff, ..] => Some("reserved for protocols"),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Some("reserved for documentation"),
        [0xfc00..=0xfdff, ..] => Some("a private network"),
        [0xfe80..=0xfeff, ..] => Some("link-local"),
        [0xff00..=0xffff, ..] => Some("multicast"),
        // ISATAP (RFC 5214).
        [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => v4(high, low).or(Some("a relay")),
        // Global unicast addresses.
        [0x2000..=0x3fff, ..] => None,
        _ => Some("reserved"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn global_addresses_are_distinguished_from_all_others() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let global = "\
            1.1.1.1 9.255.255.255 11.0.0.0 100.63.0.1 100.128.0.1 126.1.1.1 128.0.0.1 172.15.0.1 172.32.0.1 \
            192.0.1.1 192.167.1.1 198.17.0.1 198.20.0.1 223.255.255.255 2606:4700::1111 2001:4860:4860::8888 \
            ::ffff:1.1.1.1 64:ff9b::1.1.1.1 2a00:1450::1";
        for text in global.split(' ') {
            assert_eq!(non_global_reason(ip(text)), None, "{text}");
        }
        let non_global = "\
            0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 100.127.255.255 127.0.0.1 127.255.255.254 169.254.169.254 \
            172.16.0.1 172.31.255.255 192.0.0.8 192.0.2.1 192.88.99.1 192.168.0.1 198.18.0.1 198.19.255.255 \
            198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255 :: ::1 ::127.0.0.1 \
            ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:0:127.0.0.1 64:ff9b::10.0.0.1 64:ff9b:1::1.1.1.1 100::1 2001::1 \
            2001:0:7f00:1:: 2001:10::1 2001:db8::1 2002:7f00:1:: 2002:a00:1:: 2002:101:101:: 3fff::1 5f00::1 \
            fc00::1 fd12::1 fe80::1 fec0::1 ff02::1 2a00:1450::5efe:192.168.0.1 2a00:1450::200:5efe:10.0.0.1 \
            4000::1";
        for text in non_global.split(' ') {
            assert!(non_global_reason(ip(text)).is_some(), "{text}");
        }
    }

    #[test]
    fn sources_the_operator_allows_are_not_refused() {
        let items = ["192.168.1.20", "10.1.0.0/16", "fd00:1::/32", "Tuner.lan.", "0.0.0.0/32"].map(str::to_owned);
        let allowed = AllowedSources::parse(&items).unwrap();
        let refused = |text: &str| allowed.refusal_reason(text.parse().unwrap()).is_some();
        assert!(!refused("192.168.1.20") && refused("192.168.1.21"));
        assert!(!refused("10.1.255.1") && refused("10.2.0.1") && !refused("::ffff:10.1.0.9"));
        assert!(!refused("fd00:1::5") && refused("fd00:2::5") && refused("0.0.0.1"));
        assert!(allowed.allows_host("tuner.LAN") && !allowed.allows_host("evil.tuner.lan"));
        assert!(!AllowedSources::parse(&["0.0.0.0/0".to_owned()]).unwrap().allows_address("::1".parse().unwrap()));
        assert!(AllowedSources::parse(&["0.0.0.0/0".to_owned()]).unwrap().allows_address("1.2.3.4".parse().unwrap()));
        for wrong in ["", "10.0.0.0/33", "10.0.0.0/x", "a b", "http://a", "a/24"] {
            assert!(AllowedSources::parse(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }
}
