//! Tests when feelers are due, in virtual time, and the fixed seeds.

use std::time::Duration;

use apus_testchain::Rng;
use apus_wire::message::Host;
use apus_wire::{Chain, Network};

use crate::{Feelers, fixed_seeds};

#[test]
fn feelers_come_every_two_minutes_on_average() {
    let mut feelers = Feelers::default();
    let mut rng = Rng::new(1, 1);
    let times: Vec<u64> = (0..200_000)
        .filter(|second| feelers.is_due(Duration::from_secs(*second), rng.next_u64()))
        .collect();
    assert!((1500..1850).contains(&times.len()), "{} in 200,000 s", times.len());
    let gaps: Vec<u64> = times.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(gaps.iter().any(|gap| *gap < 5) && gaps.iter().any(|gap| *gap > 500));
}

#[test]
fn fixed_seeds_are_addresses() {
    let count = |chain| fixed_seeds(&Network::new(chain)).count();
    let counts = [Chain::Main, Chain::Test, Chain::Testnet4, Chain::Signet, Chain::Regtest];
    assert_eq!(counts.map(count), [1536, 172, 211, 160, 0]);
    assert_eq!(fixed_seeds(&Network::custom_signet(vec![0x51])).count(), 0);
    let main: Vec<_> = fixed_seeds(&Network::new(Chain::Main)).collect();
    let of = |is_one: fn(&Host) -> bool| main.iter().filter(|(host, _)| is_one(host)).count();
    assert_eq!(of(|host| matches!(host, Host::Ipv4(_))), 512);
    assert_eq!(of(|host| matches!(host, Host::Ipv6(_))), 512);
    assert_eq!(of(|host| matches!(host, Host::TorV3(_))), 512);
    assert!(main.iter().all(|(_, port)| *port != 0));
}
