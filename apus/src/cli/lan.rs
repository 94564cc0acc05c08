//! `--lan` of `apus sync`. Core has no such option, so bitcoin.conf does not either.

use apus_net::PeerOptions;

/// Returns whether to look for nodes on the local network: not if the user names all peers, or says
/// which way connections take. `given` is `--lan` on the command line.
///
/// # Errors
/// `--lan` contradicts another option of `peers`.
pub fn looks_for_nodes(given: Option<u8>, peers: &PeerOptions) -> Result<bool, String> {
    let limits = [
        ("connect", !peers.connect.is_empty()),
        ("proxy", peers.proxies.of_others().next().is_some()),
        ("onion", peers.proxies.onion.is_some()),
        ("onlynet", !peers.onlynet.is_empty()),
    ];
    match (limits.iter().find(|(_, is_set)| *is_set), given) {
        (None, given) => Ok(given != Some(0)),
        (Some(_), None | Some(0)) => Ok(false),
        (Some((name, _)), Some(_)) => Err(format!(
            "--lan contradicts {name}, which limits the peers that are connected to: leave out one \
             of them"
        )),
    }
}

#[cfg(test)]
mod tests {
    use apus_net::{NetKind, Proxies, Target};

    use super::*;

    #[test]
    fn the_local_network_is_searched_unless_peers_are_limited() {
        let target = || Target::parse("192.0.2.7", 8333).unwrap();
        let proxies = |text: &str| {
            let mut proxies = Proxies::default();
            proxies.add(text).unwrap();
            proxies
        };
        let usual = PeerOptions::new(8333);
        let free = PeerOptions { addnode: vec![target()], dnsseed: false, ..usual.clone() };
        for peers in [&usual, &free] {
            for (given, looks) in [(None, true), (Some(1), true), (Some(0), false)] {
                assert_eq!(looks_for_nodes(given, peers), Ok(looks), "{given:?}");
            }
        }
        for (name, limited) in [
            ("connect", PeerOptions { connect: vec![target()], ..usual.clone() }),
            ("proxy", PeerOptions { proxies: proxies("192.0.2.7"), ..usual.clone() }),
            ("onion", PeerOptions { proxies: proxies("192.0.2.7=onion"), ..usual.clone() }),
            ("onlynet", PeerOptions { onlynet: vec![NetKind::Ipv4], ..usual.clone() }),
        ] {
            assert_eq!(looks_for_nodes(None, &limited), Ok(false), "{name}");
            assert_eq!(looks_for_nodes(Some(0), &limited), Ok(false), "{name}");
            let why = looks_for_nodes(Some(1), &limited).unwrap_err();
            assert!(why.starts_with(&format!("--lan contradicts {name}, ")), "{why}");
        }
    }
}
