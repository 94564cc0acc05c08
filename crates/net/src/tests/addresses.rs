use std::net::{IpAddr, Ipv4Addr};

use apus_wire::message::{Host, NetAddress, Services};

use crate::{Addresses, Group};

const NOW: i64 = 1_700_000_000;
const NEEDS: Services = Services::NETWORK;

fn host(text: &str) -> Host {
    Host::from(text.parse::<IpAddr>().unwrap())
}

fn address(host: Host) -> NetAddress {
    NetAddress { time: NOW as u32 - 100, services: NEEDS, host, port: 8333 }
}

fn numbered(number: u32) -> NetAddress {
    address(Host::Ipv4(Ipv4Addr::from(0x0808_0000 + number)))
}

#[test]
fn those_that_nobody_can_reach_are_left_out() {
    let mut book = Addresses::default();
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
        assert_eq!(book.add(&[address(host(text))], None, NOW), 0, "{text}");
    }
    let old = NetAddress { time: (NOW - 31 * 24 * 3600) as u32, ..address(host("8.8.8.8")) };
    assert_eq!(book.add(&[old], None, NOW), 0, "not seen for a month");
    for text in ["8.8.8.8", "100.63.0.1", "172.32.0.1", "2600::1"] {
        assert_eq!(book.add(&[address(host(text))], None, NOW), 1, "{text}");
        assert_eq!(book.add(&[address(host(text))], None, NOW), 0, "{text} again");
    }
    assert_eq!(book.add(&[address(Host::TorV3([1; 32]))], None, NOW), 1);
}

#[test]
fn nobody_fills_the_book_alone() {
    let mut book = Addresses::default();
    let list: Vec<NetAddress> = (0..5000).map(numbered).collect();
    assert_eq!(book.add(&list, Some(host("9.9.9.9")), NOW), 1000);
    assert_eq!(book.add(&list, Some(host("9.9.1.1")), NOW), 0, "the same part of the network");
    assert_eq!(book.add(&list, Some(host("9.8.1.1")), NOW), 1000);
    for part in 0..100 {
        let of_part = |number| numbered(10_000 * (part + 1) + number);
        let list: Vec<NetAddress> = (0..1000).map(of_part).collect();
        let source = Host::Ipv4(Ipv4Addr::from(0x0900_0000 + (part << 16)));
        book.add(&list, Some(source), NOW);
    }
    assert!((19_000..=20_000).contains(&book.len()), "{}", book.len());
}

#[test]
fn the_next_is_elsewhere_and_not_tried_again_at_once() {
    let mut book = Addresses::default();
    let (a, b) = (host("8.8.1.1"), host("8.9.1.1"));
    book.add(&[address(a), address(b)], None, NOW);
    for random in 0..4 {
        let next = book.next(NEEDS, &[host("8.8.200.1")], |_| true, NOW, random);
        assert_eq!(next, Some((b, 8333)), "8.8.* is taken");
    }
    assert_eq!(book.next(NEEDS, &[a, b], |_| true, NOW, 0), None);
    let witness = NEEDS.with(Services::WITNESS);
    assert_eq!(book.next(witness, &[], |_| true, NOW, 0), None, "none offers witnesses");
    book.tried(&(a, 8333), NOW);
    assert_eq!(book.next(NEEDS, &[b], |_| true, NOW + 599, 0), None);
    assert_eq!(book.next(NEEDS, &[b], |_| true, NOW + 600, 0), Some((a, 8333)));
    for attempt in 0..3 {
        book.tried(&(a, 8333), NOW + 1000 * attempt);
    }
    assert_eq!(book.next(NEEDS, &[b], |_| true, NOW + 10_000, 0), None, "it never worked");
}

#[test]
fn the_fastest_that_worked_come_first_every_other_time() {
    let mut book = Addresses::default();
    let hosts = ["8.1.1.1", "8.2.1.1", "8.3.1.1"].map(host);
    book.add(&hosts.map(address), None, NOW);
    for (host, speed) in hosts.iter().take(2).zip([10, 20]) {
        let place = (*host, 8333);
        book.tried(&place, NOW);
        book.worked(&place, NEEDS, NOW);
        book.speed(&place, speed);
    }
    let later = NOW + 1000;
    assert_eq!(book.next(NEEDS, &[], |_| true, later, 0), Some((hosts[1], 8333)));
    assert_eq!(book.next(NEEDS, &[], |_| true, later, 1), Some((hosts[2], 8333)));
    assert_eq!(book.next(NEEDS, &hosts[2..], |_| true, later, 1), Some((hosts[1], 8333)));
}

#[test]
fn a_file_holds_what_is_known() {
    let mut book = Addresses::default();
    let hosts = [host("8.1.1.1"), host("2600::1"), Host::TorV3([0xab; 32])];
    book.add(&hosts.map(address), None, NOW);
    book.tried(&(hosts[0], 8333), NOW);
    book.worked(&(hosts[0], 8333), NEEDS.with(Services::WITNESS), NOW);
    book.speed(&(hosts[0], 8333), 5_000_000);
    let text = book.to_text();
    let mut again = Addresses::default();
    again.read(&text, NOW).unwrap();
    assert_eq!(again.to_text(), text);
    assert_eq!(again.len(), 3);
    // Only the damaged lines of a file are lost.
    let damaged = text.replace("8333", "83333").replace("2600::1 83333", "2600::1 8333");
    let mut rest = Addresses::default();
    rest.read(&damaged, NOW).unwrap();
    assert_eq!(rest.len(), 1);
    assert_eq!(Addresses::default().read("something else\n", NOW), None);
    assert_eq!(Addresses::default().read("", NOW), None);
    let mut late = Addresses::default();
    late.read(&text, NOW + 32 * 24 * 3600).unwrap();
    assert!(late.is_empty(), "not seen for a month");
}

#[test]
fn parts_of_the_network() {
    let group = |text| Group::of(&host(text));
    assert_eq!(group("1.2.3.4"), group("1.2.200.1"));
    assert_ne!(group("1.2.3.4"), group("1.3.3.4"));
    assert_eq!(group("2600:1:2::1"), group("2600:1:3::1"));
    assert_ne!(group("2600:1::1"), group("2600:2::1"));
    assert_ne!(Group::of(&Host::TorV3([0x10; 32])), Group::of(&Host::TorV3([0x20; 32])));
}
