//! Connects through a SOCKS5 proxy, such as Tor (RFC 1928, RFC 1929). The crates for it have no
//! time limits, or are asynchronous.

use std::io::{self, Read, Write};

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const USERNAME_PASSWORD: u8 = 2;
const USERNAME_PASSWORD_VERSION: u8 = 1;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const DOMAIN_NAME: u8 = 3;
const IPV6: u8 = 4;

/// Why a connection through the proxy fails.
#[derive(Debug, thiserror::Error)]
pub enum Socks5Error {
    /// The connection to the proxy is closed or broken.
    #[error("the proxy: {0}")]
    Io(#[from] io::Error),
    /// The proxy's answer is not SOCKS5.
    #[error("the proxy does not speak SOCKS5")]
    Protocol,
    /// The proxy accepts neither of our authentication methods, or not our password.
    #[error("the proxy does not accept our authentication")]
    Authentication,
    /// The host's name is longer than 255 bytes.
    #[error("the host's name is too long")]
    Name,
    /// The proxy cannot connect to the host.
    #[error("the proxy: {0}")]
    Refused(&'static str),
}

/// A user name and a password. Tor isolates connections with different ones from each other.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The user name.
    pub username: String,
    /// The password.
    pub password: String,
}

/// Asks the proxy at the other end of `stream` to connect to a host, whose name it resolves itself.
///
/// # Errors
/// The proxy does not connect to the host, or the connection to the proxy fails.
pub fn connect(
    stream: &mut (impl Read + Write),
    host: &str,
    port: u16,
    credentials: Option<&Credentials>,
) -> Result<(), Socks5Error> {
    let host_len = u8::try_from(host.len()).map_err(|_| Socks5Error::Name)?;
    match credentials {
        None => stream.write_all(&[VERSION, 1, NO_AUTHENTICATION])?,
        Some(_) => stream.write_all(&[VERSION, 2, NO_AUTHENTICATION, USERNAME_PASSWORD])?,
    }
    let [version, method] = read(stream)?;
    match (version, method, credentials) {
        (VERSION, NO_AUTHENTICATION, _) => {}
        (VERSION, USERNAME_PASSWORD, Some(credentials)) => authenticate(stream, credentials)?,
        (VERSION, _, _) => return Err(Socks5Error::Authentication),
        _ => return Err(Socks5Error::Protocol),
    }
    let mut request = vec![VERSION, CONNECT, 0, DOMAIN_NAME, host_len];
    request.extend_from_slice(host.as_bytes());
    request.extend_from_slice(&port.to_be_bytes());
    stream.write_all(&request)?;
    let [version, reply, _, kind] = read(stream)?;
    if version != VERSION {
        return Err(Socks5Error::Protocol);
    }
    if reply != 0 {
        return Err(Socks5Error::Refused(refusal(reply)));
    }
    // The address and port from which the proxy connects.
    let len = match kind {
        IPV4 => 4,
        IPV6 => 16,
        DOMAIN_NAME => {
            let [len] = read(stream)?;
            usize::from(len)
        }
        _ => return Err(Socks5Error::Protocol),
    };
    let mut rest = [0; 257];
    Ok(stream.read_exact(&mut rest[..len + 2])?)
}

fn authenticate(
    stream: &mut (impl Read + Write),
    credentials: &Credentials,
) -> Result<(), Socks5Error> {
    let mut request = vec![USERNAME_PASSWORD_VERSION];
    for text in [&credentials.username, &credentials.password] {
        request.push(u8::try_from(text.len()).map_err(|_| Socks5Error::Authentication)?);
        request.extend_from_slice(text.as_bytes());
    }
    stream.write_all(&request)?;
    match read(stream)? {
        [USERNAME_PASSWORD_VERSION, 0] => Ok(()),
        _ => Err(Socks5Error::Authentication),
    }
}

fn read<const N: usize>(stream: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Returns the meaning of a reply; those from 0xf0 on are Tor's (its proposal 304).
fn refusal(reply: u8) -> &'static str {
    match reply {
        1 => "general failure",
        2 => "connection not allowed",
        3 => "network unreachable",
        4 => "host unreachable",
        5 => "connection refused",
        6 => "TTL expired",
        7 => "protocol error",
        8 => "address type not supported",
        0xf0 => "onion service not found",
        0xf1 => "onion service descriptor is invalid",
        0xf2 => "onion service introduction failed",
        0xf3 => "onion service rendezvous failed",
        0xf4 => "onion service missing client authorization",
        0xf5 => "onion service wrong client authorization",
        0xf6 => "onion service invalid address",
        0xf7 => "onion service introduction timed out",
        _ => "unknown",
    }
}
