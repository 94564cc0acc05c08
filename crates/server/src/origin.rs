//! Refuses what a page of another site makes a browser send. A name of that site may lead to this
//! machine (DNS rebinding), and a browser adds a password that it knows to requests of any page
//! (CSRF). Programs that are no browsers send no `Origin`, and a password says that they may ask.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderValue, header};

/// The ends of names that no stranger can register: those of this machine and the local network.
const LOCAL_ENDS: [&str; 6] = ["localhost", "local", "lan", "internal", "home.arpa", "onion"];

/// Returns whether a request may come from where its headers say; `named` means that its password
/// is right.
pub(crate) fn is_allowed(headers: &HeaderMap, named: bool) -> bool {
    let text = |value: &HeaderValue| value.to_str().ok().map(str::to_ascii_lowercase);
    let Some(host) = headers.get(header::HOST).map(text) else {
        // A browser always names the host.
        return headers.get(header::ORIGIN).is_none();
    };
    let Some(host) = host else { return false };
    let is_cross_site = headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site");
    // A link on another page leads here with a navigation, which that page cannot read.
    let is_navigation = headers.get("sec-fetch-mode").is_some_and(|mode| mode == "navigate");
    if is_cross_site && !is_navigation {
        return false;
    }
    let origin_is_own = headers.get(header::ORIGIN).is_none_or(|origin| {
        let origin = text(origin);
        let after = origin.as_ref().and_then(|origin| Some(origin.split_once("://")?.1));
        after == Some(&*host)
    });
    origin_is_own && (named || is_local(&host))
}

/// Returns whether `HOST` or `HOST:PORT` is an address, or a name that no stranger can register.
fn is_local(host: &str) -> bool {
    if let Some(rest) = host.strip_prefix('[') {
        let address = rest.split_once(']').map(|(address, _)| address);
        return address.is_some_and(|address| address.parse::<IpAddr>().is_ok());
    }
    let name = host.split_once(':').map_or(host, |(name, _)| name).trim_end_matches('.');
    let is_end = |end: &str| name.strip_suffix(end).is_some_and(|rest| rest.ends_with('.'));
    !name.contains('.')
        || name.parse::<IpAddr>().is_ok()
        || LOCAL_ENDS.iter().any(|end| is_end(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(named: bool, headers: &[(&'static str, &str)]) -> bool {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, HeaderValue::from_str(value).unwrap());
        }
        is_allowed(&map, named)
    }

    #[test]
    fn names_that_a_stranger_can_register_need_a_password() {
        for host in [
            "127.0.0.1:8332",
            "[::1]:8332",
            "192.168.0.9",
            "localhost:8332",
            "a.localhost",
            "apus:8332",
            "umbrel.local",
            "node.home.arpa:80",
        ] {
            assert!(allowed(false, &[("host", host)]), "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example:8332", "evillocal.com", "[evil]"] {
            assert!(!allowed(false, &[("host", host)]), "{host}");
            assert!(allowed(true, &[("host", host)]), "{host}");
        }
        assert!(allowed(false, &[]));
    }

    #[test]
    fn a_page_of_another_site_is_refused_even_with_a_password() {
        let host = ("host", "127.0.0.1:8332");
        assert!(allowed(true, &[host, ("origin", "http://127.0.0.1:8332")]));
        for origin in ["http://evil.example", "null", "http://127.0.0.1:80", "http://127.0.0.1"] {
            assert!(!allowed(true, &[host, ("origin", origin)]), "{origin}");
            assert!(!allowed(true, &[("origin", origin)]), "{origin}");
        }
        let rebound = [("host", "evil.example"), ("origin", "http://evil.example")];
        assert!(!allowed(false, &rebound));
        let cross = ("sec-fetch-site", "cross-site");
        assert!(!allowed(true, &[host, cross, ("sec-fetch-mode", "no-cors")]));
        assert!(allowed(true, &[host, cross, ("sec-fetch-mode", "navigate")]));
    }
}
