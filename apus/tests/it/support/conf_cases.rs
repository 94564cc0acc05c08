//! Settings files, and what bitcoind makes of them: a table that Apus and a bitcoind are held to.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::Path;

/// What becomes of a start with settings files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It goes on, without a warning about names, sections or includes.
    Takes,
    /// It goes on with such a warning, which has this word.
    Warns(&'static str),
    /// It ends with an error, which has this word.
    Refuses(&'static str),
}

use Verdict::{Refuses, Takes, Warns};

/// Files of a data directory by name, arguments, and the verdict. The other files of a case are
/// those of [`FILES`].
pub type Case = (&'static [(&'static str, &'static str)], &'static [&'static str], Verdict);

/// A bitcoin.conf alone, and the verdict.
type ConfCase = (&'static str, Verdict);

/// Files that cases include.
const FILES: [(&str, &str); 4] = [
    ("par.conf", "par=2\n"),
    ("regtest.conf", "regtest=1\n"),
    ("connect.conf", "connect=127.0.0.1\n"),
    ("nested.conf", "par=2\nincludeconf=par.conf\n"),
];

/// Settings that count only in the section of a test network.
const SECTIONS: &[ConfCase] = &[
    ("regtest=1\naddnode=127.0.0.1", Refuses("addnode")),
    ("regtest=1\nbind=127.0.0.1", Refuses("bind")),
    ("regtest=1\nconnect=127.0.0.1", Refuses("connect")),
    ("regtest=1\nport=1", Refuses("port")),
    ("regtest=1\nrpcbind=127.0.0.1", Refuses("rpcbind")),
    ("regtest=1\nrpcport=1", Refuses("rpcport")),
    ("connect=127.0.0.1\nregtest=1", Refuses("connect")),
    ("testnet=1\nconnect=127.0.0.1", Refuses("[test]")),
    ("testnet4=1\nconnect=127.0.0.1", Refuses("[testnet4]")),
    ("signet=1\nconnect=127.0.0.1", Refuses("[signet]")),
    ("chain=regtest\nconnect=127.0.0.1", Refuses("[regtest]")),
    ("regtest=1\nconnect=0", Refuses("connect")),
    ("regtest=1\nconnect=", Refuses("connect")),
    ("regtest=1\nnoconnect=0", Refuses("connect")),
    ("regtest=1\nnoconnect=1", Takes),
    ("regtest=1\nconnect=127.0.0.1\nnoconnect=1", Takes),
    ("regtest=1\nnoconnect=1\nconnect=127.0.0.1", Refuses("connect")),
    ("regtest=1\nconnect=127.0.0.1\n[regtest]\nconnect=127.0.0.2", Takes),
    ("regtest=1\nconnect=127.0.0.1\nregtest.connect=127.0.0.2", Takes),
    ("regtest=1\nconnect=127.0.0.1\n[regtest]\nnoconnect=1", Refuses("connect")),
    ("regtest=1\nconnect=127.0.0.1\n[test]\nconnect=127.0.0.2", Refuses("connect")),
    ("regtest=1\n[test]\nconnect=127.0.0.2", Takes),
    ("regtest=1\nmain.connect=127.0.0.1", Takes),
    ("connect=127.0.0.1", Takes),
    ("[main]\nconnect=127.0.0.1\n[regtest]\nport=1", Takes),
    ("regtest=1\nincludeconf=connect.conf", Refuses("connect")),
    ("regtest=1\nproxy=127.0.0.1\nseednode=127.0.0.1\nmaxconnections=3\nserver=1", Takes),
    ("[foo]\npar=1", Warns("[foo]")),
    ("foo.par=1", Warns("[foo]")),
    ("[testnet]\npar=1", Warns("[testnet]")),
    ("[]", Warns("[]")),
    ("[main]\n[test]\n[testnet4]\n[signet]\n[regtest]\npar=1", Takes),
];

/// Names, values and networks.
const NAMES: &[ConfCase] = &[
    ("dbcahce=100", Warns("dbcahce")),
    ("nodbcahce=1", Warns("dbcahce")),
    ("regtest.dbcahce=1", Warns("dbcahce")),
    ("node=1", Warns("de")),
    ("upnp=1", Warns("upnp")),
    ("=1", Warns("gnor")),
    ("\u{feff}regtest=1", Warns("regtest")),
    ("DBCACHE=1", Warns("DBCACHE")),
    ("zmqpubrawblock=tcp://127.0.0.1:1\ndatacarrier=0\ndisablewallet=1\nuacomment=a", Takes),
    ("server", Refuses("server")),
    ("noserver", Refuses("noserver=1")),
    ("-server=1", Refuses("-server")),
    ("conf=x", Refuses("includeconf")),
    ("noconf=1", Refuses("includeconf")),
    ("rpcpassword=a#b", Refuses("rpcpassword")),
    ("nodatadir=1", Refuses("datadir")),
    ("nologlevel=1", Refuses("loglevel")),
    ("nosignetchallenge=1", Refuses("signetchallenge")),
    ("nosignetseednode=0", Refuses("signetseednode")),
    ("regtest=1\ntestnet=1", Refuses("regtest")),
    ("regtest=1\nchain=regtest", Refuses("regtest")),
    ("regtest=1\nregtest=0", Takes),
    ("[regtest]\nregtest=1", Takes),
    ("chain=mainnet", Refuses("mainnet")),
    ("datadir=/nonexistent/d", Takes),
    ("blocksdir=/nonexistent/d", Refuses("does not exist")),
    ("maxconnections=-1", Refuses("maxconnections")),
    ("prune=549", Refuses("550")),
    ("prune=-1", Refuses("rune")),
    ("port=0", Refuses("Invalid port specified in ")),
    ("port=99999", Refuses("'99999'")),
    ("port=8333x", Refuses("'8333x'")),
    ("timeout=-1", Takes),
    ("debuglogfile=\nrpccookiefile=", Takes),
    ("assumevalid=1", Takes),
    ("assumevalid=0x01", Takes),
    ("assumevalid=xyz", Refuses("assumevalid")),
    ("minimumchainwork=xyz", Refuses("minimum")),
    ("onlynet=tor", Refuses("tor")),
    ("onlynet=onion\nonion=127.0.0.1\ndnsseed=1", Refuses("dnsseed=1")),
    ("onlynet=onion\nproxy=127.0.0.1\nnoonion=1", Refuses("onlynet=onion")),
    ("networkactive=0\ndns=0\nmaxconnections=0", Takes),
    ("proxy=unix:/run/tor/socks", Takes),
    ("onion=unix:/run/tor/socks", Takes),
    ("proxy=127.0.0.1:9050=onion", Takes),
    ("proxy=127.0.0.1:9050=IPv4\nproxy=unix:/run/tor/socks=ipv6\nproxy=0=cjdns", Takes),
    ("proxy=", Takes),
    ("noproxy=1", Takes),
    ("onion=", Takes),
    ("proxy=127.0.0.1:9050=tor", Refuses("tor")),
    ("proxy=127.0.0.1:9050=i2p", Refuses("i2p")),
    ("proxy=127.0.0.1:9050=", Refuses("127.0.0.1:9050=")),
    ("proxy=127.0.0.1:x", Refuses("127.0.0.1:x")),
    ("proxy=127.0.0.1\nproxy=127.0.0.1=tor", Refuses("tor")),
    ("onion=127.0.0.1:x", Refuses("127.0.0.1:x")),
    ("onion=127.0.0.1=ipv4", Refuses("127.0.0.1=ipv4")),
    ("dns=0\nproxy=proxy.invalid", Refuses("proxy.invalid")),
    ("includeconf=par.conf", Takes),
    ("includeconf=none.conf", Refuses("none.conf")),
    ("includeconf=none.conf\nnoincludeconf=1", Takes),
    ("includeconf=.", Refuses("directory")),
    ("noincludeconf=0", Refuses("")),
    ("includeconf=nested.conf", Warns("includeconf")),
    ("includeconf=regtest.conf\n[regtest]\nincludeconf=par.conf", Warns("includeconf")),
    ("regtest=1\n[regtest]\nincludeconf=par.conf\n[test]\nincludeconf=none.conf", Takes),
];

/// Cases with more than a bitcoin.conf.
const OTHERS: &[Case] = &[
    (&[("bitcoin.conf", "connect=127.0.0.1")], &["-regtest"], Refuses("connect")),
    (&[("bitcoin.conf", "connect=127.0.0.1")], &["-regtest", "-connect=127.0.0.2"], Takes),
    (&[("bitcoin.conf", "regtest=1")], &["-chain=regtest"], Refuses("regtest")),
    (&[("bitcoin.conf", "regtest=1")], &["-regtest"], Takes),
    (&[("bitcoin.conf", "server=0")], &["-nolisten", "-noprune", "-noassumevalid=1"], Takes),
    (&[("bitcoin.conf", "nonsense")], &["-conf=none.conf", "-noconf"], Takes),
    (&[("bitcoin.conf", "regtest=1")], &["-regtest=0", "-chain=regtest"], Takes),
    (&[("bitcoin.conf", "chain=signet")], &["-chain=regtest"], Takes),
    (&[("settings.json", r#"{"dbcache": 5, "proxy": "127.0.0.1"}"#)], &[], Takes),
    (&[("settings.json", r#"{"dbcahce": 5}"#)], &[], Warns("dbcahce")),
    (&[("settings.json", r#"{"nodbcahce": 5, "regtest.par": 1}"#)], &[], Warns("dbcahce")),
    (&[("settings.json", r#"{"par": 5, "par": 6}"#)], &[], Refuses("par")),
    (&[("settings.json", r#"{"par": 20.5}"#)], &[], Refuses("integer")),
    (&[("settings.json", r#"{"par": 99999999999999999999}"#)], &[], Refuses("integer")),
    (&[("settings.json", r#"{"proxy": {"host": "127.0.0.1"}}"#)], &[], Refuses("")),
    (&[("settings.json", r#"{"proxy": ["127.0.0.1", "127.0.0.1=tor"]}"#)], &[], Refuses("")),
    (&[("settings.json", "[1]")], &[], Refuses("settings.json")),
    (
        &[
            ("bitcoin.conf", "regtest=1\nconnect=127.0.0.1"),
            ("regtest/settings.json", r#"{"connect": "127.0.0.2"}"#),
        ],
        &[],
        Takes,
    ),
    (
        &[
            ("bitcoin.conf", "regtest=1\nconnect=127.0.0.1"),
            ("regtest/settings.json", r#"{"connect": false}"#),
        ],
        &[],
        Refuses("connect"),
    ),
];

/// Calls `judge` with a data directory, arguments, and the verdict, for every case.
pub fn for_each_case(mut judge: impl FnMut(&Path, &[&str], Verdict)) {
    let alone = SECTIONS.iter().chain(NAMES);
    for (conf, verdict) in alone {
        in_directory(&[("bitcoin.conf", *conf)], |dir| judge(dir, &[], *verdict));
    }
    for (files, args, verdict) in OTHERS {
        in_directory(files, |dir| judge(dir, args, *verdict));
    }
}

fn in_directory(files: &[(&str, &str)], judge: impl FnOnce(&Path)) {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in FILES.iter().chain(files) {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    judge(dir.path());
}

/// Panics unless a start ended as the verdict says: with this error, or these warnings.
#[track_caller]
pub fn assert_verdict(
    verdict: Verdict,
    found: Result<Vec<String>, String>,
    dir: &Path,
    args: &dyn Display,
) {
    let is_right = match (verdict, &found) {
        (Takes, Ok(warnings)) => warnings.is_empty(),
        (Warns(word), Ok(warnings)) => warnings.iter().any(|warning| warning.contains(word)),
        (Refuses(word), Err(error)) => error.contains(word),
        _ => false,
    };
    let conf = std::fs::read_to_string(dir.join("bitcoin.conf")).unwrap_or_default();
    assert!(is_right, "{conf}\n{args}: expected {verdict:?}, found {found:?}");
}

/// The arguments of `apus sync` on a directory.
pub fn arguments_of_sync(dir: &Path, args: &[&str]) -> Vec<OsString> {
    let mut datadir = OsString::from("--datadir=");
    datadir.push(dir);
    let mut all = vec!["apus".into(), "sync".into(), datadir];
    all.extend(args.iter().map(OsString::from));
    all
}
