use std::collections::VecDeque;
use std::io::{self, Read, Write};

use crate::{Credentials, Socks5Error, socks5_connect as connect};

/// A proxy that sends these bytes, and the bytes that were sent to it.
struct Proxy {
    says: VecDeque<u8>,
    heard: Vec<u8>,
}

impl Read for Proxy {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.says.read(buffer)
    }
}

impl Write for Proxy {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.heard.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn run(says: &[u8], credentials: Option<&Credentials>) -> (Result<(), Socks5Error>, Proxy) {
    let mut proxy = Proxy { says: says.iter().copied().collect(), heard: Vec::new() };
    let result = connect(&mut proxy, "seed.example", 8333, credentials);
    (result, proxy)
}

const CONNECTED_IPV4: [u8; 10] = [5, 0, 0, 1, 127, 0, 0, 1, 0x1f, 0x90];
/// The request for the host and port of the tests.
const REQUEST: &[u8] = b"\x05\x01\x00\x03\x0cseed.example\x20\x8d";

#[test]
fn without_authentication() {
    let says = [&[5, 0][..], &CONNECTED_IPV4, b"more"].concat();
    let (result, proxy) = run(&says, None);
    result.unwrap();
    assert_eq!(proxy.heard, [b"\x05\x01\x00", REQUEST].concat());
    assert_eq!(proxy.says, b"more", "the host's bytes are left unread");
}

#[test]
fn with_a_name_and_a_password() {
    let credentials = Credentials { username: "a".into(), password: "bc".into() };
    for bound in [
        &CONNECTED_IPV4[..],
        &[5, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2],
        &[5, 0, 0, 3, 2, b'x', b'y', 1, 2],
    ] {
        let (result, proxy) = run(&[&[5, 2, 1, 0][..], bound].concat(), Some(&credentials));
        result.unwrap();
        assert_eq!(proxy.heard, [b"\x05\x02\x00\x02\x01\x01a\x02bc", REQUEST].concat());
        assert!(proxy.says.is_empty());
    }
    // The proxy need not ask for authentication.
    run(&[&[5, 0][..], &CONNECTED_IPV4].concat(), Some(&credentials)).0.unwrap();
}

#[test]
fn whatever_else_it_says_is_an_error() {
    let credentials = Credentials { username: "a".into(), password: "b".into() };
    let error = |says: &[u8]| run(says, Some(&credentials)).0.unwrap_err();
    assert!(matches!(error(&[4, 0]), Socks5Error::Protocol));
    assert!(matches!(error(&[5, 0xff]), Socks5Error::Authentication));
    assert!(matches!(error(&[5, 2, 1, 1]), Socks5Error::Authentication));
    assert!(matches!(run(&[5, 2], None).0, Err(Socks5Error::Authentication)));
    assert!(matches!(error(&[5, 0, 4, 0, 0, 1]), Socks5Error::Protocol));
    assert!(matches!(error(&[5, 0, 5, 0, 0, 9]), Socks5Error::Protocol));
    for reply in [1, 5, 0xf0, 0x99] {
        assert!(matches!(error(&[5, 0, 5, reply, 0, 1]), Socks5Error::Refused(_)));
    }
    let whole = [&[5, 0][..], &CONNECTED_IPV4].concat();
    for end in 0..whole.len() {
        assert!(matches!(error(&whole[..end]), Socks5Error::Io(_)), "{end}");
    }
    let mut proxy = Proxy { says: VecDeque::new(), heard: Vec::new() };
    let name = "x".repeat(256);
    assert!(matches!(connect(&mut proxy, &name, 1, None), Err(Socks5Error::Name)));
}
