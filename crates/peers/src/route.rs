//! Connects to hosts, directly or through a SOCKS5 proxy.
//!
//! Names that only a proxy can reach are never looked up in DNS: only [`Routes::resolve`] asks the
//! system's resolver, and it refuses such names.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use apus_net::{
    Credentials, HostKind, NetKind, Proxies, Proxy, Socks5Error, Target, socks5_connect,
};
use apus_wire::message::Host;

use super::random::random;

/// The time limit for an answer of the proxy, and for a write.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

/// A function that finds the addresses of a name.
pub(super) type Resolver = dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// How to reach hosts.
pub(super) struct Routes {
    /// The SOCKS5 proxies.
    pub proxies: Proxies,
    /// Time limit for opening a connection (Core's `-timeout`).
    pub timeout: Duration,
    /// The system's resolver.
    pub resolver: Box<Resolver>,
}

/// Why a host cannot be reached, as a text for the user.
#[derive(Debug)]
pub(super) enum Unreachable {
    /// The proxy does not take connections, or does not work as a SOCKS5 proxy.
    Proxy(String),
    /// The reason lies with the host.
    Host(String),
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Proxy(why) | Self::Host(why)) = self;
        f.write_str(why)
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

/// Asks the system's resolver for the addresses of a name.
pub(super) fn system_resolver(name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok((name, port).to_socket_addrs()?.collect())
}

impl Routes {
    /// Opens a connection to `target`. Without a proxy, connects only to addresses in `nets`, which
    /// is empty for all; a proxy chooses the address itself.
    ///
    /// # Errors
    /// The target or its proxy cannot be reached, or the target needs a proxy and there is none.
    pub fn connect(&self, target: &Target, nets: &[NetKind]) -> Result<TcpStream, Unreachable> {
        match self.proxy_to(target)? {
            Some(proxy) => self.connect_through(proxy, target),
            None => {
                let opened = self.connect_directly(target, nets);
                opened.map_err(|why| Unreachable::Host(why.to_string()))
            }
        }
    }

    /// Returns the proxy through which `target` is reached; `None` if it needs none.
    fn proxy_to(&self, target: &Target) -> Result<Option<&Proxy>, Unreachable> {
        match self.proxies.to(target.kind()) {
            None if target.needs_a_proxy() => Err(Unreachable::Host(target.words_on_proxy())),
            proxy => Ok(proxy),
        }
    }

    fn connect_through(&self, proxy: &Proxy, target: &Target) -> Result<TcpStream, Unreachable> {
        let opened = match proxy {
            Proxy::Host(host) => self.connect_to_any(host, |_| true),
            // A connection is handled in the same way over both kinds of sockets.
            Proxy::Unix(path) => UnixStream::connect(path).map(|s| OwnedFd::from(s).into()),
        };
        let mut stream =
            opened.map_err(|why| Unreachable::Proxy(format!("proxy {proxy}: {why}")))?;
        let (host, port) = target.name();
        // Tor gives connections with different passwords different circuits.
        let word = format!("{:016x}", random());
        let credentials = Credentials { username: word.clone(), password: word };
        let mut ask = || -> Result<(), Socks5Error> {
            stream.set_read_timeout(Some(TIMEOUT))?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            socks5_connect(&mut stream, &host, port, Some(&credentials))
        };
        let Err(why) = ask() else { return Ok(stream) };
        let words = format!("through proxy {proxy}: {why}");
        Err(match why {
            Socks5Error::Refused(_) | Socks5Error::Name => Unreachable::Host(words),
            // A working proxy may take too long to reach a host.
            Socks5Error::Io(error) if is_timeout(&error) => Unreachable::Host(words),
            _ => Unreachable::Proxy(words),
        })
    }

    /// Connects to the first address of `target` that is in `nets` and answers. Addresses that have
    /// a proxy are left out, if the name of their host has none.
    fn connect_directly(&self, target: &Target, nets: &[NetKind]) -> io::Result<TcpStream> {
        self.connect_to_any(target, |address| {
            let kind =
                if address.ip().to_canonical().is_ipv4() { HostKind::Ipv4 } else { HostKind::Ipv6 };
            let is_wanted =
                nets.is_empty() || nets.contains(&NetKind::of(&Host::from(address.ip())));
            is_wanted && self.proxies.to(kind).is_none()
        })
    }

    /// Connects to the first usable address of `target` that answers.
    fn connect_to_any(
        &self,
        target: &Target,
        is_usable: impl Fn(&SocketAddr) -> bool,
    ) -> io::Result<TcpStream> {
        let mut last = io::Error::other(format!("{target} has no address to connect to"));
        for address in self.resolve(target)?.into_iter().filter(is_usable) {
            match TcpStream::connect_timeout(&address, self.timeout) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Returns the addresses of `target`.
    ///
    /// # Errors
    /// The name has no address, or only a proxy can reach it.
    pub fn resolve(&self, target: &Target) -> io::Result<Vec<SocketAddr>> {
        if target.needs_a_proxy() {
            return Err(io::Error::other(target.words_on_proxy()));
        }
        let (host, port) = target.name();
        match host.parse() {
            Ok(ip) => Ok(vec![SocketAddr::new(ip, port)]),
            Err(_) => (self.resolver)(&host, port),
        }
    }
}
