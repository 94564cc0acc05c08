use std::net::{IpAddr, Ipv4Addr, TcpListener};

use apus_net::Proxies;
use apus_wire::Chain;
use crossbeam_channel::unbounded;

use super::*;
use crate::budget::Budget;
use crate::limiter::Limiter;
use crate::route::{Routes, system_resolver};

const NOW: i64 = 1_700_000_000;

/// Returns a dialer with these peers, none of which is connected.
fn dialer(roles: impl IntoIterator<Item = Role>) -> Dialer {
    let mut dialer = dialer_at(PathBuf::from("/nowhere/peers.txt"));
    dialer.roles.0 = roles.into_iter().enumerate().map(|(n, role)| (id(n), role)).collect();
    dialer
}

/// Returns a dialer whose address book is in this file.
fn dialer_at(file: PathBuf) -> Dialer {
    let network = Network::new(Chain::Main);
    let how = Dialing {
        magic: network.magic,
        routes: Routes {
            proxies: Proxies::default(),
            timeout: Duration::from_secs(1),
            resolver: Box::new(system_resolver),
        },
        v2: false,
        limiter: Limiter::new(None).into(),
        budget: Budget::new(1 << 20).into(),
        events: unbounded().0,
    };
    let options = PeerOptions::new(network.port);
    Dialer::new(Arc::new(how), &network, &options, (&Disk::new(), file), NOW).unwrap()
}

/// Returns the role of a peer that connected to us.
fn inbound(address: &str) -> Role {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let socket = Arc::new(Socket::outbound(stream));
    let address: SocketAddr = address.parse().unwrap();
    let group = KeyedGroups::default().of(address.ip());
    let connected = Duration::ZERO;
    Role::Inbound(Inbound { address, socket, group, connected, last_block: None })
}

fn id(number: usize) -> PeerId {
    PeerId(number as u64)
}

/// Returns `count` addresses, each in another part of the network; others for each `number`.
fn addresses(number: u32, count: u32) -> Vec<IpAddr> {
    let at = |index: u32| IpAddr::V4(Ipv4Addr::from(0x1000_0000 + (index << 16) + number));
    (0..count).map(at).collect()
}

fn list(number: u32, count: u32) -> Vec<NetAddress> {
    let address =
        |ip| NetAddress { time: NOW as u32, services: NEEDED, host: Host::from(ip), port: 8333 };
    addresses(number, count).into_iter().map(address).collect()
}

/// Chooses this many peers, which are connected at once. Returns how they were chosen.
fn choose(dialer: &mut Dialer, count: usize) -> Vec<(Place, Slot)> {
    let mut chosen = Vec::new();
    while chosen.len() < count
        && let Some((place, slot)) = dialer.next_place(NOW)
    {
        let connected = dialer.new_id();
        dialer.roles.0.insert(connected, Role::automatic(place, slot));
        dialer.worked(connected, NEEDED, Duration::from_secs(chosen.len() as u64), NOW);
        chosen.push((place, slot));
    }
    chosen
}

/// Adds peers that were connected to before, with this speed.
fn remember(dialer: &mut Dialer, list: &[NetAddress], speed: u64) {
    for address in list {
        let place = (address.host, address.port);
        dialer.book.add(&[*address], Group::named("user"), NOW);
        dialer.book.worked(&place, NEEDED, NOW - 1000);
        dialer.book.speed(&place, speed);
    }
}

#[test]
fn a_dns_seed_names_few() {
    let mut dialer = dialer([]);
    for number in 0..3 {
        let found = addresses(number, 1000).into_iter().map(|ip| SocketAddr::new(ip, 8333));
        let before = dialer.book.len();
        dialer.resolved(&number.to_string(), &found.collect::<Vec<_>>(), NOW);
        let new = dialer.book.len() - before;
        // Two of them may belong in the same place.
        assert!((DNS_ADDRESSES_MAX - 3..=DNS_ADDRESSES_MAX).contains(&new), "{new}");
    }
}

/// Whatever the kind of connection, the addresses that a peer sends count for its part of the
/// network.
#[test]
fn no_part_of_the_network_fills_the_book() {
    let target = |text| Target::parse(text, 8333).unwrap();
    let place = (Host::from(IpAddr::from([9, 2, 1, 1])), 8333);
    let mut dialer = dialer([
        Role::automatic(place, Slot::Any),
        inbound("9.3.1.1:50000"),
        inbound("9.3.2.2:50000"),
        inbound("[2600::1]:50000"),
        Role::Seed(target("9.4.1.1")),
        Role::Seed(target("seed.example")),
    ]);
    for number in 0..6 {
        let before = dialer.book.len();
        for part in 0..20 {
            dialer.heard(id(number), &list(number as u32 * 20 + part, 2000), NOW);
        }
        let new = dialer.book.len() - before;
        let name = dialer.name_of(id(number));
        match number {
            2 => assert!(new < 1000, "{new} of {name}, in a part that has sent some"),
            // It may share buckets with those before.
            _ => assert!((1500..=4096).contains(&new), "{new} of {name}"),
        }
    }
}

#[test]
fn fast_peers_get_half_of_the_slots() {
    let mut dialer = dialer([]);
    remember(&mut dialer, &list(1, 50), 1_000_000);
    let slow = list(3, 50);
    remember(&mut dialer, &slow, 1000);
    let chosen = choose(&mut dialer, OUTBOUND_MAX);
    let fast = chosen.iter().filter(|(_, slot)| *slot == Slot::Fast);
    assert_eq!(fast.count(), OUTBOUND_MAX / 2);
    let groups: Vec<Group> = chosen.iter().map(|(place, _)| Group::of(&place.0)).collect();
    assert!(groups.iter().all(|group| groups.iter().filter(|other| *other == group).count() == 1));
    assert_eq!(chosen.len(), OUTBOUND_MAX);
    // The others are not chosen by speed: over many restarts, slow ones come up as well.
    let mut slow_ones = 0;
    for _ in 0..20 {
        dialer.roles.0.clear();
        let file = dialer.book.to_text(&[]);
        dialer.book = Addresses::read(&file, HashKey::random(), NOW).0;
        let chosen = choose(&mut dialer, OUTBOUND_MAX);
        let of_slow = |place: &Place| slow.iter().any(|slow| slow.host == place.0);
        let any = chosen.iter().filter(|(_, slot)| *slot == Slot::Any);
        slow_ones += any.filter(|(place, _)| of_slow(place)).count();
    }
    assert!(slow_ones > 20, "{slow_ones} of 100");
}

#[test]
fn two_anchors_are_connected_to_first_and_once() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join(FILE);
    let mut first = dialer_at(file.clone());
    remember(&mut first, &list(1, 50), 1_000_000);
    remember(&mut first, &list(2, 500), 0);
    let chosen = choose(&mut first, OUTBOUND_MAX);
    first.save(false).unwrap();
    assert!(dialer_at(file.clone()).anchors.is_empty(), "they are stored at the end");
    first.save(true).unwrap();
    let any = chosen.iter().filter(|(_, slot)| *slot == Slot::Any).map(|(place, _)| *place);
    let mut expected: Vec<Place> = any.take(ANCHORS_MAX).collect();
    let mut second = dialer_at(file.clone());
    let mut begun: Vec<Place> =
        choose(&mut second, 2).into_iter().map(|(place, _)| place).collect();
    expected.sort_unstable();
    begun.sort_unstable();
    assert_eq!(begun, expected, "chosen without regard to speed, and connected the longest");
    assert!(dialer_at(file.clone()).anchors.is_empty(), "a peer that makes us fail does so once");
    std::fs::write(&file, "apus peers 2\nanchor 9.9.9.9 8333\n").unwrap();
    assert_eq!(dialer_at(file.clone()).anchors.len(), 1);
    assert!(dialer_at(file).anchors.is_empty(), "once, even if no other address is known");
}

/// A failure counts while we are surely not offline, or may have no connection that shows it.
#[test]
fn failures_count_for_one_connection_as_well() {
    for (maxconnections, connected, counts) in
        [(1, 0, true), (2, 0, false), (2, 1, true), (3, 1, false), (3, 2, true), (125, 2, true)]
    {
        let mut dialer = dialer([]);
        remember(&mut dialer, &list(1, 50), 0);
        choose(&mut dialer, connected);
        let found = dialer.roles.are_online(maxconnections);
        assert_eq!(found, counts, "{maxconnections}, {connected}");
    }
}

#[test]
fn there_is_one_connection_more_for_a_while() {
    let mut dialer = dialer([]);
    remember(&mut dialer, &list(1, 50), 0);
    choose(&mut dialer, OUTBOUND_MAX);
    assert!(dialer.may_have_extra());
    for (role, is_extra) in [
        (inbound("9.3.1.1:50000"), false),
        (Role::Feeler((Host::from(IpAddr::from([9, 9, 9, 9])), 1)), true),
        (Role::automatic((Host::from(IpAddr::from([9, 9, 9, 9])), 1), Slot::Candidate), true),
        (Role::automatic((Host::from(IpAddr::from([9, 9, 9, 9])), 1), Slot::Any), true),
    ] {
        dialer.roles.0.insert(PeerId(1000), role);
        assert_eq!(dialer.may_have_extra(), !is_extra);
    }
    dialer.roles.0.remove(&PeerId(1000));
    dialer.options.maxconnections = OUTBOUND_MAX;
    assert!(!dialer.may_have_extra(), "the user allows no more");
}

/// An address of `tried` is tested when another one waits for its place, unless it is connected.
#[test]
fn a_connected_peer_needs_no_test() {
    let mut dialer = dialer([]);
    let old = loop {
        let number = dialer.book.len() as u32;
        let address = NetAddress { port: number as u16 + 1, ..list(number, 1)[0] };
        remember(&mut dialer, &[address], 0);
        if let Some(old) = dialer.book.to_test(0) {
            break old;
        }
    };
    dialer.roles.0.insert(id(1), Role::automatic(old, Slot::Any));
    dialer.worked(id(1), NEEDED, Duration::ZERO, NOW - 1);
    let before = dialer.book.to_text(&[]);
    let line = |text: &str| {
        let host = old.0.ip().unwrap();
        let port = old.1;
        text.lines().find(|line| line.starts_with(&format!("{host} {port} "))).map(str::to_string)
    };
    // No new address may be connected to.
    dialer.options.onlynet = vec![NetKind::Onion];
    dialer.dial_feeler(NOW);
    let after = dialer.book.to_text(&[]);
    assert_ne!(line(&before), line(&after), "it has just worked");
    dialer.book.resolve_waiting(NOW);
    assert_eq!(dialer.book.to_test(0), None);
}

#[test]
fn nodes_of_the_local_network_are_tried_like_named_ones() {
    let mut dialer = dialer([]);
    (dialer.options.dnsseed, dialer.options.fixedseeds) = (false, false);
    let named = Target::parse("192.168.1.20", 8333).unwrap();
    assert!(
        add_manual(&mut dialer.manual, named.clone()) && !add_manual(&mut dialer.manual, named)
    );
    dialer.named = 1;
    dialer.lan = Some(LanSearch::over(&["192.168.1.20:8333", "127.0.0.1:1", "127.0.0.1:1"]));
    assert_eq!((dialer.take_found().len(), dialer.take_found().len()), (1, 0));
    dialer.manual[0].is_tried = true;
    dialer.dial_more(Duration::ZERO, NOW);
    let ids: Vec<_> = dialer.roles.0.keys().copied().collect();
    let [node] = ids[..] else { panic!("one connection: {ids:?}") };
    assert_eq!(dialer.connection_type(node), ConnectionType::Manual);
    let failed = dialer.failed(node, Duration::from_secs(5)).unwrap();
    assert_eq!(failed.name, "127.0.0.1:1, found on the local network");
    assert_eq!((failed.is_first, failed.wait), (true, RETRY_FIRST));
    for (now, connections) in [(5, 0), (6, 1)] {
        dialer.dial_more(Duration::from_secs(now), NOW);
        assert_eq!(dialer.roles.0.len(), connections);
    }
    // They take no slot, and are not in the address book, from which others are chosen.
    assert!(dialer.roles.in_slots() == 0 && dialer.book.is_empty());
}
