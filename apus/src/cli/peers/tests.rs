//! The options for peers of `apus sync`, from the command line and from bitcoin.conf.

use std::ffi::OsString;

use apus_net::{MaxDownload, NetKind, PeerOptions};
use clap::{Args, Command};

use super::PeerArgs;

use crate::cli::options_of_sync;

/// The options for peers of `apus sync` with these arguments and this bitcoin.conf.
fn peers(conf: &str, args: &[&str]) -> Result<Option<PeerOptions>, String> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("bitcoin.conf"), conf).unwrap();
    let datadir = format!("--datadir={}", dir.path().display());
    let all = ["apus", "sync", &datadir].into_iter().chain(args.iter().copied());
    Ok(options_of_sync(all.map(OsString::from).collect())?.0.peers)
}

fn connect(conf: &str, args: &[&str]) -> Option<Vec<String>> {
    let peers = peers(conf, args).unwrap()?;
    Some(peers.connect.iter().map(ToString::to_string).collect())
}

#[test]
fn peers_are_asked_without_files_or_if_they_are_named() {
    let none: Vec<String> = Vec::new();
    assert_eq!(connect("", &[]), Some(none.clone()));
    assert_eq!(connect("", &["--from=a"]), None);
    assert_eq!(connect("", &["--connect=0"]), None);
    assert_eq!(connect("", &["-connect=0", "--from=a"]), None);
    assert_eq!(connect("", &["--from=a", "--follow"]), Some(none.clone()));
    let named = Some(vec!["1.2.3.4:8333".to_string()]);
    assert_eq!(connect("", &["--from=a", "-connect=1.2.3.4"]), named);
    assert_eq!(connect("connect=1.2.3.4", &[]), named);
    assert_eq!(connect("connect=1.2.3.4", &["--from=a"]), None);
    for off in ["connect=0", "noconnect=1"] {
        assert_eq!(connect(off, &[]), None, "{off}");
        assert_eq!(connect(off, &["--connect=1.2.3.4"]), named, "{off}");
    }
    assert!(peers("", &["--connect=0", "--follow"]).is_err());
}

#[test]
fn at_the_top_of_the_file_peers_are_for_the_main_network_alone() {
    let conf = "connect=1.2.3.4\nport=9\n[regtest]\nconnect=5.6.7.8\n";
    let main = peers(conf, &[]).unwrap().unwrap();
    assert_eq!((main.connect.len(), main.port), (1, 9));
    let refused = peers(conf, &["--regtest"]).unwrap_err();
    assert!(refused.contains("bitcoin.conf:2: port is only applied on regtest"), "{refused}");
    assert!(!refused.contains("connect"), "its section has it: {refused}");
    let regtest = ["--regtest", "--port=7"];
    assert_eq!(connect(conf, &regtest), Some(vec!["5.6.7.8:18444".to_string()]));
    assert_eq!(peers(conf, &regtest).unwrap().unwrap().port, 7);
}

#[test]
fn each_option_has_the_name_and_the_meaning_that_core_gives_it() {
    let conf = "proxy=127.0.0.1\ndnsseed=0\nonlynet=onion\nonlynet=i2p\ntimeout=0\n\
                maxconnections=7\nv2transport=0\nlisten=1\n";
    let found = peers(conf, &["--maxdownload=2.5"]).unwrap().unwrap();
    assert_eq!(found.proxies.ipv4.map(|proxy| proxy.to_string()), Some("127.0.0.1:9050".into()));
    assert_eq!((found.lan, found.onlynet), (false, vec![NetKind::Onion]));
    assert_eq!((found.maxconnections, found.timeout.as_millis()), (7, 5000));
    assert_eq!((found.dnsseed, found.v2transport, found.listen), (false, false, false));
    assert_eq!(found.maxdownload, MaxDownload::parse(["2.5"]).ok());
    for (args, announces) in
        [(&["--lan"][..], false), (&["--listen"], false), (&["--listen", "--lan"], true)]
    {
        assert_eq!(peers("", args).unwrap().unwrap().announce, announces, "{args:?}");
    }
    for wrong in ["--maxdownload=0", "--connect=a b", "--proxy=:", "--onlynet=i2p"] {
        assert!(peers("", &[wrong]).is_err(), "{wrong}");
    }
    for (conf, args, millis) in [
        ("timeout=-5", &[][..], 5000),
        ("timeout=soon", &[], 5000),
        ("timeout=70", &[], 70),
        ("timeout=70", &["--timeout=0"], 5000),
        ("", &["--timeout=-1"], 5000),
    ] {
        let found = peers(conf, args).unwrap().unwrap();
        assert_eq!(found.timeout.as_millis(), millis, "{conf} {args:?}");
    }
    for wrong in [
        "maxconnections=-1",
        "port=99999",
        "port=0",
        "port=8333x",
        "prune=-1",
        "prune=7",
        "blockfilterindex=2",
    ] {
        let error = peers(wrong, &[]).unwrap_err();
        assert!(error.contains(wrong.split_once('=').unwrap().0), "{error}");
        assert!(error.contains("bitcoin.conf:1") && !error.contains("--"), "{error}");
    }
}

#[test]
fn the_limit_on_the_download_may_have_times() {
    let expected = MaxDownload::parse(["20@08:00-23:00", "50"]).unwrap();
    for args in [
        &["--maxdownload", "20@08:00-23:00,50"][..],
        &["--maxdownload=20@08:00-23:00", "--maxdownload=50"],
    ] {
        let found = peers("", args).unwrap().unwrap();
        assert_eq!(found.maxdownload.as_ref(), Some(&expected), "{args:?}");
    }
    for wrong in ["20@8-23", "2,5", "-1"] {
        let error = peers("", &["--maxdownload", wrong]).unwrap_err();
        assert!(error.starts_with("--maxdownload: "), "{error}");
        assert!(error.contains("20@08:00-23:00"), "{error}");
    }
}

#[test]
fn options_for_peers_that_are_not_asked_are_errors() {
    // Four of them ask for peers, and `Options::check_witness` says what --witness needs.
    let others = ["connect", "addnode", "seednode", "follow", "witness"];
    let table = PeerArgs::augment_args(Command::new("peers"));
    for option in table.get_arguments() {
        let name = option.get_long().unwrap();
        if others.contains(&name) {
            continue;
        }
        let option = match option.get_value_names().unwrap()[0].as_str() {
            "0|1" => format!("--{name}"),
            "HOST" | "ADDR" => format!("--{name}=127.0.0.1"),
            "NET" => format!("--{name}=ipv4"),
            _ => format!("--{name}=3"),
        };
        for (none, words) in [("--from=a", "with --from"), ("--connect=0", "--connect=0")] {
            let what = peers("", &[none, &option]).unwrap_err();
            let expected = format!("--{name} has no effect without peers: ");
            assert!(what.starts_with(&expected) && what.contains(words), "{what}");
        }
        let named = if name == "lan" { "--addnode=1.2.3.4" } else { "--connect=1.2.3.4" };
        let args = ["--from=a", named, "--listen", "--blockfilterindex", &option];
        assert!(peers("", &args).is_ok(), "{option}");
    }
    assert!(peers("", &["--connect=0", "--addnode=1.2.3.4"]).is_err());
    assert!(peers("", &["--connect=0", "--seednode=1.2.3.4"]).is_err());
    let off = ["-connect=0", "-listen=0", "-dnsseed=0", "-onion=0", "-proxy=0", "-lan=0"];
    assert_eq!(peers("", &off), Ok(None));
    assert_eq!(peers("", &["--from=a", "--v2transport=0", "--listen=0"]), Ok(None));
    for (conf, words) in [("loadblock=a", "loadblock=a from "), ("connect=0", "connect=0 from ")] {
        let what = peers(conf, &["--maxdownload=1"]).unwrap_err();
        assert!(what.contains(words) && what.contains("bitcoin.conf"), "{what}");
    }
    let unheard = peers("", &["--maxuploadtarget=5"]).unwrap_err();
    assert!(unheard.contains("without --listen"), "{unheard}");
    let unheard = peers("", &["--blockfilterindex", "--peerblockfilters"]).unwrap_err();
    assert!(unheard.contains("without --listen"), "{unheard}");
    let heard = peers("maxuploadtarget=1G", &["--listen"]).unwrap().unwrap();
    assert_eq!(heard.maxuploadtarget, Some(1 << 30));
    // Settings of bitcoind's own are no mistake.
    assert_eq!(peers("proxy=127.0.0.1\nlisten=1\n", &["--from=a"]), Ok(None));
}

const ONION: &str = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion";

/// As in Core: `Cannot set -peerblockfilters without -blockfilterindex.`
#[test]
fn filters_are_served_from_their_index_alone() {
    let filters = |conf: &str, args: &[&str]| {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("bitcoin.conf"), conf).unwrap();
        let datadir = format!("--datadir={}", dir.path().display());
        let all = ["apus", "sync", "--listen", &datadir].into_iter().chain(args.iter().copied());
        let options = options_of_sync(all.map(OsString::from).collect())?.0;
        Ok::<bool, String>(options.peerblockfilters)
    };
    let both = "blockfilterindex=1\npeerblockfilters=1";
    assert_eq!(filters(both, &[]), Ok(true));
    assert_eq!(filters("", &["--blockfilterindex", "--peerblockfilters"]), Ok(true));
    assert_eq!(filters("", &["--blockfilterindex"]), Ok(false));
    assert_eq!(filters(both, &["--peerblockfilters=0"]), Ok(false));
    // A SwiftSync does not build it, and goes on.
    assert_eq!(filters(both, &["--hints=h"]), Ok(false));
    for (conf, args) in [
        ("", &["--peerblockfilters"][..]),
        ("peerblockfilters=1", &[]),
        ("blockfilterindex=1", &["--peerblockfilters", "--blockfilterindex=0"]),
    ] {
        let why = filters(conf, args).unwrap_err();
        assert!(why.contains("peerblockfilters") && why.contains("--blockfilterindex"), "{why}");
    }
}

/// Nothing that restricts where connections go may end in more connections.
#[test]
fn networks_that_cannot_be_reached_are_an_error() {
    let connect = format!("--connect={ONION}");
    for (conf, args, words) in [
        ("onlynet=i2p", &[][..], "onlynet=i2p: Apus supports only ipv4, ipv6 and onion"),
        ("onlynet=cjdns\nonlynet=I2P", &[], "onlynet=I2P: Apus supports only"),
        ("onlynet=tor", &[], "onlynet=tor names no network"),
        ("onlynet=onion", &[], "--onion=127.0.0.1:9050"),
        ("onlynet=onion\nproxy=127.0.0.1\nnoonion=1", &[], "--onion=127.0.0.1:9050"),
        ("", &["--onlynet=onion"], "--onion=127.0.0.1:9050"),
        ("onion=127.0.0.1", &["--onlynet=onion", "--dnsseed=1"], "dnsseed=1 contradicts"),
        ("onlynet=onion\ndnsseed=1\nproxy=127.0.0.1", &[], "dnsseed=1 contradicts"),
        ("", &[&*connect], "--onion=127.0.0.1:9050"),
        ("onion=0\nproxy=127.0.0.1", &[&*connect], "is an onion service"),
        ("", &["--connect=a.b32.i2p"], "is an I2P address"),
        ("", &["--seednode=a.b32.i2p"], "is an I2P address"),
        ("seednode=a.onion", &[], "is an onion service"),
        ("", &["--proxy=a.onion"], "cannot be used as a proxy"),
        ("proxy=127.0.0.1=tor", &[], "'tor' at the end of"),
        ("proxy=127.0.0.1=", &["--proxy=127.0.0.1"], "bitcoin.conf:1: ''"),
        ("", &["--proxy=unix:"], "names no socket"),
        ("onion=unix:", &[], "onion from"),
        ("dns=0\nproxy=a.example", &[], "a.example:9050: dns=0 from"),
        ("dns=0", &["--addnode=a.example"], "a.example:8333: dns=0 from"),
    ] {
        let error = peers(conf, args).unwrap_err();
        assert!(error.contains(words), "{conf} {args:?}: {error}");
    }
    assert!(peers("onlynet=i2p", &["--onlynet=ipv4"]).is_ok(), "the command line has the say");
}

#[test]
fn onion_services_have_the_proxy_that_core_gives_them() {
    let default = "127.0.0.1:9050";
    for (conf, onion) in [
        ("", None),
        ("proxy=127.0.0.1", Some(default)),
        ("proxy=127.0.0.1\nonion=", Some(default)),
        ("proxy=10.0.0.1:1\nonion=127.0.0.1", Some(default)),
        ("onion=127.0.0.1:9050", Some(default)),
        ("proxy=127.0.0.1=onion", Some(default)),
        ("proxy=127.0.0.1=ipv4", None),
        ("proxy=10.0.0.1:1\nproxy=127.0.0.1=onion", Some(default)),
        ("proxy=10.0.0.1:1\nonion=unix:/run/tor", Some("unix:/run/tor")),
        ("dns=0\nproxy=127.0.0.1\naddnode=a.example", Some(default)),
        ("proxy=127.0.0.1\nonion=0", None),
        ("proxy=127.0.0.1\nnoonion=1", None),
        ("proxy=0", None),
    ] {
        let found = peers(conf, &[]).unwrap().unwrap();
        assert_eq!(found.proxies.onion.map(|proxy| proxy.to_string()).as_deref(), onion, "{conf}");
    }
    let found = peers("proxy=10.0.0.1:1", &["--onion=127.0.0.1"]).unwrap().unwrap();
    assert_eq!(found.proxies.onion.map(|proxy| proxy.to_string()).as_deref(), Some(default));
    assert_eq!(found.proxies.ipv4.map(|proxy| proxy.to_string()).as_deref(), Some("10.0.0.1:1"));
    // A proxy for one network leaves those of the file for the others.
    let found = peers("proxy=10.0.0.1:1", &["--proxy=127.0.0.1=onion"]).unwrap().unwrap();
    assert_eq!(found.proxies.ipv6.map(|proxy| proxy.to_string()).as_deref(), Some("10.0.0.1:1"));
    let off = peers("proxy=10.0.0.1:1", &["--proxy=0"]).unwrap().unwrap();
    assert_eq!(off.proxies, Default::default());
}
