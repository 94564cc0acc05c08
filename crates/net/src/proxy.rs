//! SOCKS5 proxies, and which hosts are reached through which.

use std::fmt;
use std::path::PathBuf;

use super::target::{HostKind, Target};

/// The port of a proxy that is named without one: that of Tor (Core's default).
const PORT: u16 = 9050;
/// The prefix of the path of a Unix socket.
const UNIX: &str = "unix:";
/// The most bytes of such a path, with a zero behind it (`sun_path`).
const PATH_BYTES_MAX: usize = 107;

/// Where a SOCKS5 proxy takes connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Proxy {
    /// A host and a port.
    Host(Target),
    /// A Unix socket.
    Unix(PathBuf),
}

impl Proxy {
    /// Reads `HOST`, `HOST:PORT` or `unix:PATH`.
    ///
    /// # Errors
    /// Says what is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix(UNIX) {
            let fits = !path.is_empty() && path.len() <= PATH_BYTES_MAX;
            return if fits {
                Ok(Self::Unix(path.into()))
            } else {
                Err(format!(
                    "'{text}' names no socket: its path must have 1 to {PATH_BYTES_MAX} bytes"
                ))
            };
        }
        let host = Target::parse(text, PORT)?;
        if host.needs_a_proxy() {
            Err(format!("{host} is an onion or I2P address, which cannot be used as a proxy"))
        } else {
            Ok(Self::Host(host))
        }
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => host.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

/// The proxies of Core's `-proxy` and `-onion`, by the kind of host that they reach.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Proxies {
    /// For IPv4 addresses.
    pub ipv4: Option<Proxy>,
    /// For IPv6 addresses.
    pub ipv6: Option<Proxy>,
    /// For names, which it resolves, and for hosts of I2P.
    pub names: Option<Proxy>,
    /// For onion services; `None` for no connections to them.
    pub onion: Option<Proxy>,
}

impl Proxies {
    /// Adds a value of Core's `-proxy`: a proxy for all networks, or `PROXY=NETWORK` for one; `0`
    /// or nothing before the `=` removes it again.
    ///
    /// # Errors
    /// Says what is wrong with the text.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        let (proxy, network) = match text.rsplit_once('=') {
            Some((proxy, network)) => (proxy, Some(network.to_ascii_lowercase())),
            None => (text, None),
        };
        let proxy = match proxy {
            "" | "0" => None,
            proxy => Some(Proxy::parse(proxy)?),
        };
        match network.as_deref() {
            None => {
                let ipv4 = proxy.clone();
                let ipv6 = proxy.clone();
                *self = Self { ipv4, ipv6, names: proxy.clone(), onion: proxy };
            }
            Some("ipv4") => (self.ipv4, self.names) = (proxy.clone(), proxy),
            Some("ipv6") => (self.ipv6, self.names) = (proxy.clone(), proxy),
            Some("onion") => self.onion = proxy,
            // Apus connects to no host of this network.
            Some("cjdns") => {}
            Some(other) => {
                return Err(format!(
                    "'{other}' at the end of '{text}' is no network that has a proxy: use ipv4, \
                     ipv6, onion or cjdns"
                ));
            }
        }
        Ok(())
    }

    /// Returns the proxy for hosts of this kind; `None` to connect without one.
    pub fn to(&self, kind: HostKind) -> Option<&Proxy> {
        let proxy = match kind {
            HostKind::Ipv4 => &self.ipv4,
            HostKind::Ipv6 => &self.ipv6,
            HostKind::Name | HostKind::I2p => &self.names,
            HostKind::Onion => &self.onion,
        };
        proxy.as_ref()
    }

    /// Returns the proxies for other hosts than onion services.
    pub fn of_others(&self) -> impl Iterator<Item = &Proxy> {
        [&self.ipv4, &self.ipv6, &self.names].into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The proxies for IPv4, IPv6, names and onion services.
    fn proxies(values: &[&str]) -> Result<[String; 4], String> {
        let mut all = Proxies::default();
        for value in values {
            all.add(value)?;
        }
        let kinds = [HostKind::Ipv4, HostKind::Ipv6, HostKind::Name, HostKind::Onion];
        Ok(kinds.map(|kind| all.to(kind).map_or("-".to_string(), ToString::to_string)))
    }

    #[test]
    fn a_value_of_proxy_means_what_it_means_to_core() {
        let a = "1.2.3.4:9050";
        let b = "1.2.3.4:9";
        for (values, expected) in [
            (&[][..], ["-", "-", "-", "-"]),
            (&["1.2.3.4"], [a, a, a, a]),
            (&["unix:/run/tor"], ["unix:/run/tor"; 4]),
            (&["1.2.3.4=onion"], ["-", "-", "-", a]),
            (&["1.2.3.4=IPv4"], [a, "-", a, "-"]),
            (&["1.2.3.4=ipv6"], ["-", a, a, "-"]),
            (&["1.2.3.4=cjdns"], ["-", "-", "-", "-"]),
            (&["1.2.3.4", "1.2.3.4:9=onion"], [a, a, a, b]),
            (&["1.2.3.4:9=onion", "1.2.3.4"], [a, a, a, a]),
            (&["1.2.3.4", "0"], ["-", "-", "-", "-"]),
            (&["1.2.3.4", ""], ["-", "-", "-", "-"]),
            (&["1.2.3.4", "0=onion"], [a, a, a, "-"]),
            (&["unix:/a=b=onion"], ["-", "-", "-", "unix:/a=b"]),
        ] {
            assert_eq!(proxies(values).unwrap(), expected, "{values:?}");
        }
        let long = format!("unix:/{}", "a".repeat(107));
        for wrong in
            ["1.2.3.4=", "1.2.3.4=tor", "1.2.3.4=i2p", "unix:", "x.onion", ":", "a b", &long]
        {
            assert!(proxies(&["1.2.3.4", wrong]).is_err(), "{wrong}");
        }
    }
}
