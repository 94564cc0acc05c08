//! Tests which names are looked up, which hosts are connected to, and what is sent there, with a
//! resolver and a proxy that record what they are asked.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;

use apus_hash::HashKey;
use apus_net::{Addresses, Group, NetKind, Outgoing, PeerId, Proxies, Proxy as SocksProxy, Target};
use apus_progress::Unobserved;
use apus_testpeer::{Answers, Hangup, Server, version};
use apus_wire::message::{Command, Host, Message, NetAddress, Raw, Services, encode};
use apus_wire::{Chain, Network};
use crossbeam_channel::{Receiver, Sender, unbounded};

use super::budget::Socket;
use super::link::{Event, accept};
use super::route::Unreachable;
use super::*;
use crate::budget::{Budget, MESSAGES_BYTES_MAX};
use crate::route::Routes;

const ONION: &str = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion";
const KEY: [u8; 32] = [
    0x79, 0xbc, 0xc6, 0x25, 0x18, 0x4b, 0x05, 0x19, 0x49, 0x75, 0xc2, 0x8b, 0x66, 0xb6, 0x6b, 0x04,
    0x69, 0xf7, 0xf6, 0x55, 0x6f, 0xb1, 0xac, 0x31, 0x89, 0xa7, 0x9b, 0x40, 0xdd, 0xa3, 0x2f, 0x1f,
];
const NOW: i64 = 1_700_000_000;

/// A request to a proxy: the host, and whether anything was then sent to it.
type Request = (String, bool);

/// A SOCKS5 proxy that records the hosts it is asked to connect to, and connects to none.
struct Proxy {
    target: Target,
    requests: Receiver<Request>,
}

impl Proxy {
    /// Starts a proxy that refuses all requests or, with `connects`, says that it is connected and
    /// hangs up after the first bytes.
    fn start(connects: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = target(&listener.local_addr().unwrap().to_string());
        let (sender, requests) = unbounded();
        threads::spawn_free("proxy".to_string(), move || {
            while let Ok((stream, _)) = listener.accept() {
                let sender = sender.clone();
                threads::spawn_free("proxied".to_string(), move || {
                    let _ = take_request(&stream, connects, &sender);
                });
            }
        });
        Self { target, requests }
    }

    /// Returns the requests so far, in alphabetical order.
    fn asked(&self) -> Vec<Request> {
        let mut asked: Vec<Request> = self.requests.try_iter().collect();
        asked.sort();
        asked
    }
}

fn take_request(
    mut stream: &TcpStream,
    connects: bool,
    requests: &Sender<Request>,
) -> io::Result<()> {
    let mut hello = [0; 4];
    stream.read_exact(&mut hello)?;
    stream.write_all(&[5, 0])?;
    let mut head = [0; 5];
    stream.read_exact(&mut head)?;
    let mut host = vec![0; usize::from(head[4]) + 2];
    stream.read_exact(&mut host)?;
    host.truncate(host.len() - 2);
    let host = String::from_utf8(host).unwrap();
    let reply = if connects { 0 } else { 5 };
    let mut has_sent = false;
    // The request is recorded before the answer, so that a client with the answer finds it.
    if !connects {
        requests.send((host, has_sent)).unwrap();
        return stream.write_all(&[5, reply, 0, 1, 0, 0, 0, 0, 0, 0]);
    }
    stream.write_all(&[5, reply, 0, 1, 0, 0, 0, 0, 0, 0])?;
    has_sent = stream.read(&mut hello)? > 0;
    requests.send((host, has_sent)).unwrap();
    Ok(())
}

fn target(text: &str) -> Target {
    Target::parse(text, 8333).unwrap()
}

/// The proxies for onion services and for all others.
fn proxies(others: Option<&Proxy>, onion: Option<&Proxy>) -> Proxies {
    let of = |proxy: Option<&Proxy>| proxy.map(|proxy| proxy.target.clone()).map(SocksProxy::Host);
    Proxies { ipv4: of(others), ipv6: of(others), names: of(others), onion: of(onion) }
}

/// Returns routes through these proxies, and the names that the resolver is asked for.
fn routes(proxy: Option<&Proxy>, onion: Option<&Proxy>) -> (Routes, Arc<Mutex<Vec<String>>>) {
    let names: Arc<Mutex<Vec<String>>> = Arc::default();
    let record = Arc::clone(&names);
    let resolver = move |name: &str, _: u16| {
        record.lock().unwrap_or_else(PoisonError::into_inner).push(name.to_string());
        Err(io::Error::other("no such name"))
    };
    let timeout = Duration::from_secs(60);
    let resolver = Box::new(resolver);
    (Routes { proxies: proxies(proxy, onion), timeout, resolver }, names)
}

#[test]
fn what_only_a_proxy_reaches_is_never_looked_up() {
    let names = ["x.onion", "X.Onion", "x.onion.", "a.b32.i2p", "a.b.I2P."];
    let (routes, looked_up) = routes(None, None);
    for name in names {
        let Err(Unreachable::Host(why)) = routes.connect(&target(name), &[]) else {
            panic!("{name}")
        };
        assert!(why.contains("--proxy"), "{name}: {why}");
        assert_eq!(why.contains("--onion"), name.to_lowercase().contains("onion"), "{why}");
        assert!(routes.resolve(&target(name)).is_err());
    }
    assert!(looked_up.lock().unwrap().is_empty(), "{looked_up:?}");
    for name in ["onion", "onion.example", "i2p", "x.onions"] {
        assert!(routes.connect(&target(name), &[]).is_err());
        assert_eq!(looked_up.lock().unwrap().pop().as_deref(), Some(name));
    }
}

/// A fault of the proxy is distinguished from what the proxy says about a host.
#[test]
fn a_proxy_that_does_not_work_is_blamed_and_not_the_host() {
    for (says, is_proxy) in [
        (&b"HTTP"[..], true),
        (&[5, 0xff], true),
        (&[], true),
        (&[5, 0], true),
        (&[5, 0, 5, 5, 0, 1, 0, 0, 0, 0, 0, 0], false),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let talking = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut hello = [0; 4];
            stream.read_exact(&mut hello).unwrap();
            stream.write_all(says).unwrap();
            // This fails if the other side has hung up already.
            let _ = stream.shutdown(std::net::Shutdown::Write);
            // Reads until the other side hangs up, so that no reset overtakes what was sent.
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let (mut routes, _) = routes(None, None);
        routes.proxies.names = Some(SocksProxy::Host(target(&address.to_string())));
        let why = routes.connect(&target("example.org"), &[]).unwrap_err();
        assert_eq!(matches!(why, Unreachable::Proxy(_)), is_proxy, "{says:?}: {why}");
        assert!(why.to_string().contains(&address.to_string()), "{why}");
        talking.join().unwrap();
    }
}

#[test]
fn each_host_goes_through_its_proxy() {
    let [proxy, onion] = [Proxy::start(false), Proxy::start(false)];
    let hosts = [ONION, "a.b32.i2p", "example.org", "9.9.9.9"];
    let connect = |routes: &Routes| {
        for host in hosts {
            assert!(routes.connect(&target(host), &[]).is_err(), "{host}");
        }
    };
    let asked = |proxy: &Proxy| -> Vec<String> {
        proxy.asked().into_iter().map(|(host, _)| host).collect()
    };
    let (both, looked_up) = routes(Some(&proxy), Some(&onion));
    connect(&both);
    assert_eq!(asked(&proxy), ["9.9.9.9", "a.b32.i2p", "example.org"]);
    assert_eq!(asked(&onion), [ONION]);
    assert!(looked_up.lock().unwrap().is_empty());
    let (without_onion, looked_up) = routes(Some(&proxy), None);
    connect(&without_onion);
    assert_eq!(asked(&proxy), ["9.9.9.9", "a.b32.i2p", "example.org"]);
    assert!(looked_up.lock().unwrap().is_empty());
    let (onion_alone, looked_up) = routes(None, Some(&onion));
    for host in &hosts[..3] {
        assert!(onion_alone.connect(&target(host), &[]).is_err());
    }
    assert_eq!((asked(&onion), asked(&proxy)), (vec![ONION.to_string()], Vec::new()));
    assert_eq!(*looked_up.lock().unwrap(), ["example.org"]);
}

/// An address that a name leads to is not connected to past the proxy for its kind; a proxy at a
/// Unix socket is asked like any other.
#[test]
fn proxies_may_be_for_one_network_or_at_a_unix_socket() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("socks");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let (sender, requests) = unbounded();
    threads::spawn_free("proxy".to_string(), move || {
        let (stream, _) = listener.accept().unwrap();
        let _ = take_request(&std::os::fd::OwnedFd::from(stream).into(), true, &sender);
    });
    let nowhere = Some(SocksProxy::Unix("/nonexistent/socks".into()));
    let v6 = "[::1]:1".parse().unwrap();
    let routes = Routes {
        proxies: Proxies {
            ipv4: Some(SocksProxy::Unix(path)),
            ipv6: nowhere,
            ..Proxies::default()
        },
        timeout: Duration::from_secs(60),
        resolver: Box::new(move |_: &str, _: u16| Ok(vec![v6])),
    };
    let mut stream = routes.connect(&target("9.9.9.9"), &[]).unwrap();
    stream.write_all(b"hello").unwrap();
    assert_eq!(requests.recv().unwrap(), ("9.9.9.9".to_string(), true));
    let why = routes.connect(&target("[2600::1]"), &[]).unwrap_err();
    assert!(matches!(why, Unreachable::Proxy(_)), "{why}");
    assert!(why.to_string().contains("unix:/nonexistent/socks"), "{why}");
    let why = routes.connect(&target("seed.example"), &[]).unwrap_err().to_string();
    assert!(why.contains("no address to connect to"), "{why}");
}

/// Opens the connections that a dialer opens at this time with these addresses in its book, closes
/// them, and waits until every thread has ended.
fn dial(options: &PeerOptions, routes: Routes, now: Duration, book: &[(Host, Services)]) {
    let network = Network::new(Chain::Main);
    let (events, heard) = unbounded();
    let magic = network.magic;
    let limiter = Limiter::new(None).into();
    let budget = Budget::new(MESSAGES_BYTES_MAX).into();
    let how = Arc::new(Dialing { magic, routes, v2: true, limiter, budget, events });
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("peers.txt");
    let mut known = Addresses::new(HashKey::random());
    let address = |(host, services): &(Host, Services)| NetAddress {
        time: NOW as u32,
        services: *services,
        host: *host,
        port: 8333,
    };
    known.add(&book.iter().map(address).collect::<Vec<_>>(), Group::named("user"), NOW);
    std::fs::write(&file, known.to_text(&[])).unwrap();
    let file: (&Disk, PathBuf) = (&Disk::new(), file);
    let mut dialer = Dialer::new(how, &network, options, file, NOW).unwrap();
    dialer.dial_more(now, NOW);
    drop(dialer);
    heard.into_iter().for_each(drop);
}

fn v4(address: [u8; 4]) -> Host {
    Host::Ipv4(Ipv4Addr::from(address))
}

const LATER: Duration = Duration::from_secs(60);

#[test]
fn with_onion_alone_nothing_else_is_asked_or_dialled() {
    let book = [(v4([9, 1, 1, 1]), NEEDED), (Host::TorV3(KEY), NEEDED)];
    let seednode = ["9.8.8.8", "seed.example", "[2600::1]", "a.b32.i2p", "b.onion"].map(target);
    for has_proxy in [false, true] {
        let proxy = Proxy::start(false);
        let (routes, looked_up) = routes(has_proxy.then_some(&proxy), Some(&proxy));
        let options = PeerOptions {
            onlynet: vec![NetKind::Onion],
            seednode: seednode.to_vec(),
            proxies: routes.proxies.clone(),
            ..PeerOptions::new(8333)
        };
        dial(&options, routes, LATER, &book);
        assert_eq!(proxy.asked(), [("b.onion".to_string(), false), (ONION.to_string(), false)]);
        assert!(looked_up.lock().unwrap().is_empty(), "{looked_up:?}");
    }
}

#[test]
fn a_name_leads_to_addresses_of_the_networks_alone() {
    // Only the IPv4 address, which comes first, has a listener.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let v4 = listener.local_addr().unwrap();
    let v6 = "[::1]:1".parse().unwrap();
    let timeout = Duration::from_secs(60);
    let resolver = Box::new(move |_: &str, _: u16| Ok(vec![v4, v6]));
    let routes = Routes { proxies: Proxies::default(), timeout, resolver };
    let peer = |nets: &[NetKind]| routes.connect(&target("seed.example"), nets);
    assert!(peer(&[NetKind::Onion]).unwrap_err().to_string().contains("has no address"));
    assert_eq!(peer(&[NetKind::Ipv4]).unwrap().peer_addr().unwrap(), v4);
    assert!(peer(&[NetKind::Ipv6]).is_err());
}

#[test]
fn dns_seeds_are_asked_where_their_peers_may_be_connected_to() {
    let seeds = Network::new(Chain::Main).dns_seeds.len();
    for (onlynet, asked) in [
        (vec![], seeds),
        (vec![NetKind::Ipv4], seeds),
        (vec![NetKind::Onion, NetKind::Ipv6], seeds),
        (vec![NetKind::Onion], 0),
    ] {
        let proxy = Proxy::start(false);
        let (direct, looked_up) = routes(None, Some(&proxy));
        let alone = proxies(None, Some(&proxy));
        let both = proxies(Some(&proxy), Some(&proxy));
        let usual = PeerOptions { fixedseeds: false, ..PeerOptions::new(8333) };
        let options = PeerOptions { onlynet, proxies: alone, ..usual };
        dial(&options, direct, Duration::ZERO, &[]);
        assert_eq!(looked_up.lock().unwrap().len(), asked, "{looked_up:?}");
        assert!(looked_up.lock().unwrap().iter().all(|name| name.starts_with("x9.")));
        assert_eq!(proxy.asked(), []);
        // Through a proxy, one of a seed's peers is asked for addresses.
        let (proxied, looked_up) = routes(Some(&proxy), Some(&proxy));
        let options = PeerOptions { proxies: both, ..options };
        dial(&options, proxied, Duration::ZERO, &[]);
        assert!(looked_up.lock().unwrap().is_empty(), "{looked_up:?}");
        assert_eq!(proxy.asked().len(), asked);
    }
}

/// Onion services have no DNS seeds: fixed addresses are used at once, or after other sources have
/// had a minute.
#[test]
fn fixed_seeds_are_used_when_nothing_else_has_addresses() {
    let onion = |seednode: &[&str], fixedseeds, now| {
        let proxy = Proxy::start(false);
        let (routes, _) = routes(Some(&proxy), Some(&proxy));
        let options = PeerOptions {
            onlynet: vec![NetKind::Onion],
            seednode: seednode.iter().map(|name| target(name)).collect(),
            proxies: routes.proxies.clone(),
            fixedseeds,
            ..PeerOptions::new(8333)
        };
        dial(&options, routes, now, &[]);
        proxy.asked().into_iter().filter(|(host, _)| host.len() == ONION.len()).count()
    };
    let early = Duration::from_secs(60);
    let late = Duration::from_secs(61);
    assert!(onion(&[], true, Duration::ZERO) >= 4);
    assert_eq!(onion(&[], false, late), 0);
    assert_eq!(onion(&["a.onion"], true, early), 0);
    assert!(onion(&["a.onion"], true, late) >= 4);
}

/// A peer that does not speak v2 hangs up on it, and is tried with v1; a v1 peer is sent nothing
/// before we know that it is there.
#[test]
fn v2_is_tried_with_peers_that_advertise_it_and_named_ones() {
    let proxy = Proxy::start(true);
    let (routes, _) = routes(Some(&proxy), None);
    let options = PeerOptions {
        addnode: vec![target("9.3.1.1")],
        dnsseed: false,
        proxies: routes.proxies.clone(),
        ..PeerOptions::new(8333)
    };
    let book = [(v4([9, 1, 1, 1]), NEEDED.with(Services::P2P_V2)), (v4([9, 2, 1, 1]), NEEDED)];
    dial(&options, routes, Duration::ZERO, &book);
    let mut asked: Vec<Request> = proxy.requests.iter().take(5).collect();
    asked.sort();
    let expected = [
        ("9.1.1.1", false),
        ("9.1.1.1", true),
        ("9.2.1.1", false),
        ("9.3.1.1", false),
        ("9.3.1.1", true),
    ];
    assert_eq!(asked, expected.map(|(host, has_sent)| (host.to_string(), has_sent)));
}

/// Records the version message that it receives, and hangs up.
struct Listening(Sender<(u64, i64, i32)>);

impl Answers for Listening {
    fn answer(&mut self, message: &Message, out: &mut Vec<Outgoing>) -> Result<(), Hangup> {
        let Message::Version(theirs) = message else { return Ok(()) };
        self.0.send((theirs.nonce, theirs.time, theirs.start_height)).unwrap();
        out.push(version(0, 1));
        Err(Hangup)
    }
}

/// Two connections have nothing in common, and their version messages say what is true when they
/// are made.
#[test]
fn each_connection_has_its_own_nonce_time_and_height() {
    let network = Network::new(Chain::Regtest);
    let (to_note, said) = unbounded();
    let begin = move || -> Box<dyn Answers> { Box::new(Listening(to_note.clone())) };
    let server = Server::start(network.magic, true, begin).unwrap();
    let connect = vec![target(&server.address().to_string())];
    let peers = PeerOptions { connect, ..PeerOptions::new(0) };
    let place = tempfile::tempdir().unwrap();
    let options = Options::new(place.path().to_path_buf(), network.clone());
    let tree = Tree::new(network);
    let mut chain = HeaderChain::fixed(&tree, tree.genesis());
    let begun = unix_time();
    let peers = Peers::begin(&options, &peers, None, &Disk::new(), 3, &Arc::default()).unwrap();
    let mut versions = Vec::new();
    while versions.len() < 2 {
        peers.connections().turn(&mut chain, &Unobserved);
        for version in said.try_iter() {
            versions.push(version);
            peers.set_height(8);
        }
    }
    let [(first, first_time, first_height), (second, second_time, second_height)] = versions[..]
    else {
        panic!("two connections: {versions:?}")
    };
    assert_ne!(first, second);
    assert_eq!((first_height, second_height), (3, 8));
    // The peer is tried again a second later.
    assert!(begun <= first_time && first_time < second_time && second_time <= unix_time());
}

/// A large message of a peer that connected to us is read when there is memory for it, which is
/// free again when the message is handled.
#[test]
fn a_large_message_of_an_inbound_peer_waits_for_memory() {
    let magic = Network::new(Chain::Regtest).magic;
    let (events, heard) = unbounded();
    let limiter = Limiter::new(None).into();
    let budget = Arc::new(Budget::new(MESSAGES_BYTES_MAX));
    let routes = routes(None, None).0;
    let of_all = Arc::clone(&budget);
    let how = Arc::new(Dialing { magic, routes, v2: false, limiter, budget, events });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = || {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, Arc::new(Socket::inbound(listener.accept().unwrap().0, &of_all)))
    };
    let (_other, holder) = connect();
    let mut all = None;
    holder.admit(MESSAGES_BYTES_MAX, &mut all).unwrap();
    let (mut client, socket) = connect();
    assert!(accept(PeerId(1), socket, &how));
    let mut version = Vec::new();
    encode(&Raw(Command::VERSION, &[0; 20_000]), magic, &mut version);
    client.write_all(&version).unwrap();
    let Event::Connected(_, link) = heard.recv().unwrap() else { panic!("no connection") };
    drop(all.take());
    let Event::Message(message) = heard.recv().unwrap() else { panic!("no message") };
    assert!(message.answered.is_some(), "the next one is read when this one is handled");
    drop(message);
    holder.admit(MESSAGES_BYTES_MAX, &mut all).unwrap();
    client.write_all(&version).unwrap();
    drop(link);
    assert!(matches!(heard.recv().unwrap(), Event::Closed(..)), "it does not wait for memory");
}
