//! Which addresses a tool may reach: those of the public internet, and no others.
//!
//! A host's name says nothing: what counts are the addresses it resolves to, all of them, at the moment the
//! connection is made. [`is_public`] is the whole policy.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use herm::{Error, Result};
use reqwest::Url;

/// IPv4 ranges that are not the public internet.
const NOT_PUBLIC_V4: [(Ipv4Addr, u32); 17] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),          // this network
    (Ipv4Addr::new(10, 0, 0, 0), 8),         // private
    (Ipv4Addr::new(100, 64, 0, 0), 10),      // carrier-grade NAT
    (Ipv4Addr::new(127, 0, 0, 0), 8),        // loopback
    (Ipv4Addr::new(168, 63, 129, 16), 32),   // Azure's wire server: a public number for a private thing
    (Ipv4Addr::new(169, 254, 0, 0), 16),     // link-local, with the metadata services of clouds
    (Ipv4Addr::new(172, 16, 0, 0), 12),      // private
    (Ipv4Addr::new(192, 0, 0, 0), 24),       // protocol assignments
    (Ipv4Addr::new(192, 0, 2, 0), 24),       // documentation
    (Ipv4Addr::new(192, 88, 99, 0), 24),     // 6to4 relays
    (Ipv4Addr::new(192, 168, 0, 0), 16),     // private
    (Ipv4Addr::new(198, 18, 0, 0), 15),      // benchmarks
    (Ipv4Addr::new(198, 51, 100, 0), 24),    // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24),     // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 4),        // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4),        // reserved
    (Ipv4Addr::new(255, 255, 255, 255), 32), // broadcast
];

/// What IPv6 has of the public internet so far; everything else (loopback, local, multicast, mapped) is outside.
const GLOBAL_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Ranges inside it that are not.
const NOT_PUBLIC_V6: [(Ipv6Addr, u32); 3] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // protocol assignments: Teredo, benchmarks, ORCHID
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation
];

/// Whether an address is one of the public internet. An IPv6 address that carries an IPv4 address is as public
/// as the address that it carries.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !NOT_PUBLIC_V4.iter().any(|(base, length)| (address.to_bits() ^ base.to_bits()) >> (32 - length) == 0)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let within = |(base, length): &(Ipv6Addr, u32)| (address.to_bits() ^ base.to_bits()) >> (128 - length) == 0;
    match address.segments() {
        // Mapped, and NAT64's well-known prefix.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => is_public_v4(carried(high, low)),
        // 6to4.
        [0x2002, high, low, ..] if !is_public_v4(carried(high, low)) => false,
        // ISATAP.
        [_, _, _, _, 0 | 0x200, 0x5efe, high, low] if !is_public_v4(carried(high, low)) => false,
        _ => within(&GLOBAL_V6) && !NOT_PUBLIC_V6.iter().any(within),
    }
}

fn carried(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))
}

/// The host of a URL, without the brackets of IPv6.
pub(crate) fn host(url: &Url) -> &str {
    let host = url.host_str().unwrap_or_default();
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// A text as a URL that may be asked for: http or https, without credentials.
pub(crate) fn parse_url(text: &str) -> Result<Url> {
    let invalid = |what: &str| Error::invalid(what).hint("give a whole URL such as https://example.com/page");
    let url = Url::parse(text.trim()).map_err(|_| invalid("that is not a URL"))?;
    check_url(&url)?;
    Ok(url)
}

/// The rules for the URL of every hop.
pub(crate) fn check_url(url: &Url) -> Result<()> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Error::refused(format!("{}: URLs are not fetched", url.scheme()))
            .hint("only http and https URLs are fetched"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Error::refused("the URL has a user name or a password in it")
            .hint("leave them out; secrets are sent by http_secret"));
    }
    if host(url).is_empty() {
        return Err(Error::invalid("the URL has no host").hint("give a whole URL such as https://example.com/page"));
    }
    Ok(())
}

/// Refuses an address literal that is not public. Names are judged when they are resolved.
pub(crate) fn check_literal(url: &Url, allowed: &BTreeSet<String>) -> Result<()> {
    let host = host(url);
    match host.parse::<IpAddr>() {
        Ok(address) if !allowed.contains(host) && !is_public(address) => Err(not_public()),
        _ => Ok(()),
    }
}

/// The refusal, which does not say what the name resolved to: that would map the network.
pub(crate) fn not_public() -> Error {
    Error::refused("that host is not on the public internet").hint("only public hosts are reached; use another source")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_not_public_are_told_from_those_that_are() {
        let refused = [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.100.100.200",
            "100.127.255.255",
            "127.0.0.1",
            "127.1.2.3",
            "127.255.255.255",
            "168.63.129.16",
            "169.254.0.1",
            "169.254.169.254",
            "169.254.170.2",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "192.168.255.255",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "239.255.255.250",
            "240.0.0.1",
            "255.255.255.254",
            "255.255.255.255",
            "::",
            "::1",
            "::2",
            "::127.0.0.1",
            "::8.8.8.8",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0:8.8.8.8",
            "64:ff9b::127.0.0.1",
            "64:ff9b::10.1.2.3",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::8.8.8.8",
            "100::1",
            "2001::1",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "2001:2::1",
            "2001:10::1",
            "2001:20::1",
            "2001:1ff::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "2002:a00:1::1",
            "2002:c0a8:101::1",
            "2002:a9fe:a9fe::1",
            "3fff::1",
            "3fff:fff::1",
            "4000::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fdff:ffff::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "feff::1",
            "ff00::1",
            "ff02::1",
            "2a00:1450::5efe:10.0.0.1",
            "2a00:1450::200:5efe:192.168.0.1",
        ];
        let public = [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.1",
            "100.63.255.255",
            "100.128.0.1",
            "126.255.255.255",
            "128.0.0.1",
            "168.63.129.17",
            "169.253.255.255",
            "169.255.0.1",
            "172.15.255.255",
            "172.32.0.1",
            "192.0.1.1",
            "192.0.3.1",
            "192.88.98.1",
            "192.167.255.255",
            "192.169.0.1",
            "198.17.255.255",
            "198.20.0.1",
            "198.51.99.1",
            "203.0.112.1",
            "203.0.114.1",
            "223.255.255.255",
            "93.184.216.34",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2001:db7::1",
            "2001:db9::1",
            "2002:808:808::1",
            "2400:cb00::1",
            "2606:4700::1111",
            "2a00:1450:4001::1",
            "3ffe::1",
            "3fff:1000::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2a00:1450::5efe:8.8.8.8",
        ];
        for text in refused {
            assert!(!is_public(text.parse().unwrap()), "{text} must be refused");
        }
        for text in public {
            assert!(is_public(text.parse().unwrap()), "{text} is public");
        }
    }

    #[test]
    fn every_spelling_of_an_address_is_seen_through() {
        for text in [
            "http://127.0.0.1/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0x7f.1/",
            "http://0177.0.0.1/",
            "http://127.1/",
            "http://0/",
            "http://127.0.0.1./",
            "http://[::1]/",
            "http://[::ffff:7f00:1]/",
            "http://[::ffff:127.0.0.1]:8080/",
            "http://169.254.169.254/latest/meta-data/",
            "http://①②⑦.0.0.1/",
            "http://127。0。0。1/",
            "http://[fe80::1]/",
            "http://[64:ff9b::a9fe:a9fe]/",
            "https://3232235521/",
        ] {
            let url = parse_url(text).unwrap();
            assert!(check_literal(&url, &BTreeSet::new()).is_err(), "{text} became {url}");
        }
        assert!(check_literal(&parse_url("http://8.8.8.8:81/").unwrap(), &BTreeSet::new()).is_ok());
    }

    #[test]
    fn other_schemes_and_credentials_are_refused() {
        for text in [
            "file:///etc/passwd",
            "ftp://example.com/",
            "gopher://example.com/",
            "data:text/plain,hi",
            "javascript:alert(1)",
            "http://user@example.com/",
            "http://user:pass@example.com/",
            "http://:p@example.com/",
            "example.com",
            "",
            "http://",
            "//example.com/",
        ] {
            assert!(parse_url(text).is_err(), "{text:?}");
        }
    }
}
