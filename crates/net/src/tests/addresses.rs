//! Tests the address book, above all against those who want to be all that is in it.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

use apus_hash::HashKey;
use apus_wire::message::{Host, NetAddress, Services};

use crate::{Addresses, Group, Needs, Place};

const NOW: i64 = 1_700_000_000;
const HOUR: i64 = 60 * 60;
const NEEDS: Services = Services::NETWORK;

fn book() -> Addresses {
    Addresses::new(key())
}

fn key() -> HashKey {
    HashKey::new([7; 32])
}

fn host(text: &str) -> Host {
    Host::from(text.parse::<IpAddr>().unwrap())
}

fn user() -> Group {
    Group::named("user")
}

fn address(host: Host) -> NetAddress {
    NetAddress { time: NOW as u32 - 100, services: NEEDS, host, port: 8333 }
}

/// Returns an address of IPv4, one after the other from 8.8.0.0 on.
fn numbered(number: u32) -> NetAddress {
    address(Host::Ipv4(Ipv4Addr::from(0x0808_0000 + number)))
}

/// Returns this many addresses, each in another part of the network; others for each `base`.
fn spread(base: u32, count: u32) -> Vec<NetAddress> {
    let at =
        |number: u32| Ipv4Addr::from(0x1000_0000 + (number << 16) + base * 16 + (number >> 12));
    (0..count).map(|number| address(Host::Ipv4(at(number)))).collect()
}

fn place(address: &NetAddress) -> Place {
    (address.host, address.port)
}

fn needs(may_connect_to: &dyn Fn(&Host) -> bool, now: i64) -> Needs<'_> {
    Needs { services: NEEDS, may_connect_to, now }
}

/// Returns what a book chooses at `now` among hosts of any kind, for many random numbers.
fn choices(book: &Addresses, is_new: bool, now: i64) -> Vec<Host> {
    let all = |_: &Host| true;
    let choose = |random: u64| book.select(is_new, &needs(&all, now), random * 77);
    (0..2000).filter_map(choose).map(|(host, _)| host).collect()
}

/// Adds an address and records that it works.
fn add_tried(book: &mut Addresses, address: &NetAddress, now: i64) {
    book.add(&[*address], user(), now);
    book.worked(&place(address), NEEDS, now);
}

/// Returns whether an address is in `tried`, by the text of the book; `None` if in no table.
fn is_tried(book: &Addresses, address: &NetAddress) -> Option<bool> {
    let Host::Ipv4(ip) = address.host else { panic!("{address:?}") };
    let text = book.to_text(&[]);
    let line = text.lines().find(|line| line.starts_with(&format!("{ip} ")))?;
    Some(line.contains(" tried "))
}

fn tried_lines(book: &Addresses) -> Vec<String> {
    let text = book.to_text(&[]);
    text.lines().filter(|line| line.contains(" tried ")).map(str::to_string).collect()
}

#[test]
fn those_that_cannot_be_reached_are_left_out() {
    let mut book = book();
    let unreachable = [
        "0.0.0.0",
        "0.1.2.3",
        "10.1.1.1",
        "127.0.0.1",
        "169.254.1.1",
        "172.16.0.1",
        "192.168.1.1",
        "192.0.2.1",
        "100.64.0.1",
        "198.18.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fc00::1",
        "fd00::1",
        "2001:db8::1",
        "2001:10::1",
        "2001:20::1",
    ];
    for text in unreachable {
        assert_eq!(book.add(&[address(host(text))], user(), NOW), 0, "{text}");
    }
    let old = NetAddress { time: (NOW - 31 * 24 * HOUR) as u32, ..address(host("8.8.8.8")) };
    assert_eq!(book.add(&[old], user(), NOW), 0, "not seen for a month");
    for text in ["8.8.8.8", "100.63.0.1", "172.32.0.1", "2600::1"] {
        assert_eq!(book.add(&[address(host(text))], user(), NOW), 1, "{text}");
        assert_eq!(book.add(&[address(host(text))], user(), NOW), 0, "{text} again");
    }
    assert_eq!(book.add(&[address(Host::TorV3([1; 32]))], user(), NOW), 1);
    assert_eq!(book.counts(), [[3, 0], [1, 0], [1, 0]]);
    book.worked(&place(&address(host("8.8.8.8"))), NEEDS, NOW);
    assert_eq!(book.counts(), [[2, 1], [1, 0], [1, 0]]);
}

#[test]
fn one_source_has_room_in_a_sixteenth_of_the_table() {
    let mut book = book();
    let flood: Vec<NetAddress> = (0..100).flat_map(|base| spread(base, 1000)).collect();
    let source = Group::of(&host("9.9.9.9"));
    let added = book.add(&flood, source, NOW);
    assert!((3800..=64 * 64).contains(&added), "{added}");
    assert_eq!(book.add(&flood, Group::of(&host("9.9.1.1")), NOW), 0, "the same part");
    // Another source has other buckets, and what it sent is chosen as often as what the flood sent.
    let others = spread(1000, 40);
    let added = book.add(&others, Group::of(&host("9.8.1.1")), NOW);
    assert!(added > 30, "{added}");
    let chosen = choices(&book, false, NOW);
    let honest = chosen.iter().filter(|host| others.iter().any(|other| other.host == **host));
    assert!(honest.count() > chosen.len() / 5, "40 of 4,000 addresses, and a third of the buckets");
}

#[test]
fn a_thousand_sources_of_one_part_are_one() {
    let mut book = book();
    let mut added = 0;
    for number in 0..1000 {
        let source = Group::of(&Host::Ipv4(Ipv4Addr::from(0x0909_0000 + number)));
        added += book.add(&spread(number, 100), source, NOW);
    }
    assert!(added <= 64 * 64, "{added}");
}

#[test]
fn a_flood_leaves_tried_addresses_alone() {
    let mut book = book();
    let good = spread(5000, 200);
    good.iter().for_each(|address| add_tried(&mut book, address, NOW));
    let tried = tried_lines(&book);
    assert!(tried.len() > 190, "{}", tried.len());
    // From 400 parts of the network, 400,000 addresses.
    for part in 0..400 {
        let source = Group::of(&Host::Ipv4(Ipv4Addr::from(0x2000_0000 + (part << 16))));
        book.add(&spread(part, 1000), source, NOW);
    }
    assert!(book.len() > 50_000, "{}", book.len());
    assert!(book.len() <= 65_536 + 16_384);
    assert_eq!(tried_lines(&book), tried);
    // Half of all choices are of them.
    let chosen = choices(&book, false, NOW + HOUR);
    let honest = chosen.iter().filter(|host| good.iter().any(|good| good.host == **host)).count();
    assert!((800..1200).contains(&honest), "{honest} of {}", chosen.len());
}

#[test]
fn nobody_can_foresee_what_an_address_displaces() {
    let fill = |key: [u8; 32]| {
        let mut book = Addresses::new(HashKey::new(key));
        let flood: Vec<NetAddress> = (0..20).flat_map(|base| spread(base, 1000)).collect();
        book.add(&flood, user(), NOW);
        let mut known = HashSet::new();
        book.has_any(|host| {
            known.insert(*host);
            false
        });
        let kept = flood.iter().map(|address| known.contains(&address.host)).collect::<Vec<bool>>();
        (kept, flood.len())
    };
    let (first, count) = fill([1; 32]);
    let (second, _) = fill([2; 32]);
    let same = first.iter().zip(&second).filter(|(a, b)| a == b).count();
    assert!(same < count * 9 / 10, "{same} of {count} are in both books or in none");
}

/// Returns two addresses that belong in the same place of `tried`.
fn rivals() -> [NetAddress; 2] {
    let mut book = book();
    for number in 0.. {
        let address = numbered(number);
        add_tried(&mut book, &address, NOW);
        if let Some(old) = book.to_test(0) {
            return [NetAddress { host: old.0, ..address }, address];
        }
    }
    unreachable!("some two of them collide")
}

#[test]
fn a_tried_address_gives_way_only_after_it_failed() {
    let [old, new] = rivals();
    let mut book = book();
    add_tried(&mut book, &old, NOW);
    add_tried(&mut book, &new, NOW + 5 * HOUR);
    assert_eq!(book.to_test(3), Some(place(&old)));
    assert_eq!((is_tried(&book, &old), is_tried(&book, &new)), (Some(true), Some(false)));
    // Nothing happens before the old one was tested.
    book.resolve_waiting(NOW + 5 * HOUR + 60);
    assert_eq!(is_tried(&book, &old), Some(true));
    // It works: the new one waits no longer.
    let mut works = Addresses::read(&book.to_text(&[]), key(), NOW + 5 * HOUR).0;
    works.worked(&place(&new), NEEDS, NOW + 5 * HOUR);
    works.attempted(&place(&old), true, NOW + 5 * HOUR + 100);
    works.worked(&place(&old), NEEDS, NOW + 5 * HOUR + 101);
    works.resolve_waiting(NOW + 5 * HOUR + 200);
    assert_eq!((is_tried(&works, &old), is_tried(&works, &new)), (Some(true), Some(false)));
    assert_eq!(works.to_test(0), None);
    // It fails: the new one gets its place, and it goes back to the table of new ones.
    book.attempted(&place(&old), true, NOW + 5 * HOUR + 100);
    book.resolve_waiting(NOW + 5 * HOUR + 150);
    assert_eq!(is_tried(&book, &old), Some(true), "the connection may still work");
    book.resolve_waiting(NOW + 5 * HOUR + 161);
    assert_eq!((is_tried(&book, &old), is_tried(&book, &new)), (Some(false), Some(true)));
}

#[test]
fn a_tried_address_that_cannot_be_tested_gives_way() {
    let [old, new] = rivals();
    let mut book = book();
    add_tried(&mut book, &old, NOW);
    add_tried(&mut book, &new, NOW + 5 * HOUR);
    book.resolve_waiting(NOW + 5 * HOUR + 40 * 60);
    assert_eq!(is_tried(&book, &old), Some(true));
    book.resolve_waiting(NOW + 5 * HOUR + 40 * 60 + 1);
    assert_eq!((is_tried(&book, &old), is_tried(&book, &new)), (Some(false), Some(true)));
}

#[test]
fn the_choice_is_elsewhere_and_not_tried_again_at_once() {
    let mut book = book();
    let a = host("8.8.1.1");
    let b = host("8.9.1.1");
    book.add(&[address(a), address(b)], user(), NOW);
    let next = |book: &Addresses, not: &[Host], now: i64| {
        let may = |host: &Host| !not.contains(host);
        book.select(false, &needs(&may, now), 5).map(|(host, _)| host)
    };
    assert_eq!(next(&book, &[a], NOW), Some(b));
    assert_eq!(next(&book, &[a, b], NOW), None);
    let all = |_: &Host| true;
    let witness = Needs { services: NEEDS.with(Services::WITNESS), ..needs(&all, NOW) };
    assert_eq!(book.select(false, &witness, 0), None, "none offers witnesses");
    book.attempted(&(a, 8333), true, NOW);
    assert_eq!(next(&book, &[b], NOW + 599), None);
    assert_eq!(next(&book, &[b], NOW + 600), Some(a));
}

/// Others could make many of us connect to a service that is none of Bitcoin's.
#[test]
fn ports_of_other_services_are_the_last_resort() {
    let mut book = book();
    let at = |number: u8, port| {
        let host = Host::Ipv4(Ipv4Addr::new(8, number, 1, 1));
        NetAddress { port, ..address(host) }
    };
    let all = |_: &Host| true;
    book.add(&[at(1, 22)], user(), NOW);
    let chosen = |book: &Addresses| book.select(false, &needs(&all, NOW), 5);
    assert_eq!(chosen(&book), Some(place(&at(1, 22))), "there is no other");
    book.add(&[at(2, 5432), at(3, 27017), at(4, 8333)], user(), NOW);
    assert!(choices(&book, false, NOW).iter().all(|host| *host == at(4, 8333).host));
    let onion = NetAddress { port: 22, ..address(Host::TorV3([7; 32])) };
    book.add(&[onion], user(), NOW);
    assert!(choices(&book, false, NOW).contains(&onion.host), "it has no other service");
    book.worked(&place(&at(1, 22)), NEEDS, NOW);
    book.speed(&place(&at(1, 22)), 1_000_000);
    assert_eq!(book.fastest(&needs(&all, NOW + HOUR)), None);
}

/// We may be offline: then no address is given up.
#[test]
fn a_failure_counts_once_until_a_connection_works() {
    let mut book = book();
    let bad = place(&numbered(1));
    let good = place(&numbered(2));
    book.add(&[numbered(1), numbered(2)], user(), NOW);
    let is_chosen = |book: &Addresses, now| choices(book, true, now).contains(&bad.0);
    for attempt in 0..10 {
        book.attempted(&bad, false, NOW + 1000 * attempt);
        book.attempted(&bad, true, NOW + 1000 * attempt);
    }
    assert!(is_chosen(&book, NOW + 20_000), "it counts once");
    for attempt in 3..5 {
        assert!(is_chosen(&book, NOW + 10_000 * attempt));
        book.worked(&good, NEEDS, NOW + 10_000 * attempt + 700);
        book.attempted(&bad, true, NOW + 10_000 * attempt + 800);
    }
    assert!(!is_chosen(&book, NOW + 50_000), "three failures, while another works");
}

#[test]
fn a_clock_that_is_behind_at_one_start_loses_no_address() {
    let mut book = book();
    book.add(&spread(10, 30), Group::named("a seed"), NOW);
    let count = |book: &Addresses| book.to_text(&[]).matches(" new ").count();
    let all = count(&book);
    assert!(all > 10, "{all}");
    let (again, _) = Addresses::read(&book.to_text(&[]), key(), NOW - 24 * HOUR);
    assert_eq!(count(&again), all);
}

#[test]
fn the_fastest_is_one_that_worked_and_may_be_connected_to() {
    let mut book = book();
    let hosts = ["8.1.1.1", "8.2.1.1", "8.3.1.1"].map(host);
    let fastest = |book: &Addresses, not: &[Host]| {
        let may = |host: &Host| !not.contains(host);
        book.fastest(&needs(&may, NOW + 1000)).map(|(host, _)| host)
    };
    book.add(&hosts.map(address), user(), NOW);
    assert_eq!(fastest(&book, &[]), None, "no speed is known");
    for (host, speed) in hosts.iter().zip([10, 20]) {
        book.worked(&(*host, 8333), NEEDS, NOW);
        book.speed(&(*host, 8333), speed);
    }
    assert_eq!(fastest(&book, &[]), Some(hosts[1]));
    assert_eq!(fastest(&book, &hosts[1..]), Some(hosts[0]));
    assert_eq!(fastest(&book, &hosts), None);
    // The other choice does not depend on speed.
    let chosen = choices(&book, false, NOW + 1000);
    let count = |host| chosen.iter().filter(|chosen| **chosen == host).count();
    assert!(count(hosts[0]) > 300 && count(hosts[1]) > 300, "{} {}", count(hosts[0]), chosen.len());
}

#[test]
fn a_file_holds_what_is_known() {
    let mut book = book();
    let hosts = [host("8.1.1.1"), host("2600::1"), Host::TorV3([0xab; 32])];
    book.add(&hosts.map(address), user(), NOW);
    book.worked(&(hosts[0], 8333), NEEDS.with(Services::WITNESS), NOW);
    book.speed(&(hosts[0], 8333), 5_000_000);
    let anchors = [(hosts[1], 8333), (hosts[2], 8333)];
    let text = book.to_text(&anchors);
    let other_key = || HashKey::new([8; 32]);
    let (again, read) = Addresses::read(&text, other_key(), NOW);
    assert_eq!((again.to_text(&anchors), &read[..]), (text.clone(), &anchors[..]));
    // Only the damaged lines of a file are lost.
    let damaged = text.replace("8333", "83333").replace("2600::1 83333", "2600::1 8333");
    let (rest, read) = Addresses::read(&damaged, other_key(), NOW);
    assert_eq!((rest.len(), read.len()), (1, 1));
    for text in ["something else\n", "", "apus peers 3\n8.1.1.1 8333 9 1 0 0 0\n"] {
        assert!(Addresses::read(text, other_key(), NOW).0.is_empty(), "{text}");
    }
    let (late, _) = Addresses::read(&text, other_key(), NOW + 32 * 24 * HOUR);
    assert_eq!(late.len(), 1, "what has worked is kept; the rest was not seen for a month");
}

#[test]
fn the_limit_for_a_source_survives_a_restart() {
    let mut book = book();
    let flood: Vec<NetAddress> = (0..100).flat_map(|base| spread(base, 1000)).collect();
    let source = Group::of(&host("9.9.9.9"));
    book.add(&flood, source, NOW);
    let before = book.len();
    let (mut book, _) = Addresses::read(&book.to_text(&[]), HashKey::new([8; 32]), NOW);
    assert_eq!(book.len(), before);
    let more: Vec<NetAddress> = (100..200).flat_map(|base| spread(base, 1000)).collect();
    book.add(&more, source, NOW);
    assert!(book.len() <= 64 * 64, "{}", book.len());
}

/// The old format did not say where an address came from.
#[test]
fn an_old_file_is_read() {
    let text = format!(
        "apus peers 1\n8.1.1.1 8333 9 {NOW} {NOW} 0 5000\n8.2.1.1 8333 9 {NOW} 0 1 0\nrubbish\n"
    );
    let (book, anchors) = Addresses::read(&text, key(), NOW);
    assert_eq!((book.len(), anchors.len()), (2, 0));
    assert_eq!(is_tried(&book, &address(host("8.1.1.1"))), Some(true));
    assert_eq!(is_tried(&book, &address(host("8.2.1.1"))), Some(false));
}

#[test]
fn parts_of_the_network() {
    let group = |text| Group::of(&host(text));
    assert_eq!(group("1.2.3.4"), group("1.2.200.1"));
    assert_ne!(group("1.2.3.4"), group("1.3.3.4"));
    assert_eq!(group("2600:1:2::1"), group("2600:1:3::1"));
    assert_ne!(group("2600:1::1"), group("2600:2::1"));
    assert_ne!(Group::of(&Host::TorV3([0x10; 32])), Group::of(&Host::TorV3([0x20; 32])));
    assert_eq!(Group::of(&Host::TorV3([0x10; 32])), Group::of(&Host::TorV3([0x11; 32])));
    // These are in Core's `netbase_tests.cpp`.
    for tunnel in ["2002:102:304:9999:9999:9999:9999:9999", "2001:0:9999:9999:9999:9999:fefd:fcfb"]
    {
        assert_eq!(group(tunnel), group("1.2.3.4"), "{tunnel}");
    }
    assert_eq!(group("64:ff9b::102:304"), group("1.2.3.4"));
    assert_eq!(group("::ffff:0:102:304"), group("1.2.3.4"));
    assert_eq!(group("2001:470:abcd::1"), group("2001:470:a000::1"));
    assert_ne!(group("2001:470:abcd::1"), group("2001:470:bbcd::1"));
    assert_ne!(Group::named("seed.example."), Group::named("seed.example.org."));
}
