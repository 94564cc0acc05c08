//! Addresses of this machine to listen on.

use std::net::{IpAddr, SocketAddr};

/// Parses an address of this machine; `what` names the option or setting in an error.
pub fn address(what: &str, text: &str, port: u16) -> Result<SocketAddr, String> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let ip = bare.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, port));
    ip.or_else(|_| text.parse()).map_err(|_| {
        format!(
            "{what}: '{text}' is not an address: give an IP address of this machine, as ADDR, \
             ADDR:PORT or [ADDR]:PORT"
        )
    })
}
