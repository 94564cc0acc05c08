use apus_wire::Network;
use clap::Parser;

use super::*;

#[derive(Parser)]
#[command(args_override_self = true)]
struct Arguments {
    #[command(flatten)]
    engine: ConnectArgs,
}

fn engine(args: &[&str]) -> ConnectArgs {
    Arguments::try_parse_from([&["sync"], args].concat()).unwrap().engine
}

fn options_of(args: &[&str]) -> apus_node::Options {
    engine(args).to_options().unwrap().options
}

#[test]
fn numbers_mean_what_they_mean_to_core() {
    for (arg, stop) in [("--stopatheight=0", None), ("--stopatheight=7", Some(7))] {
        let options = options_of(&["--datadir=x", "--par=2000000000", arg]);
        assert_eq!((options.stop_at_height, options.threads), (stop, 256));
    }
    let none = AssumeValid::Nothing;
    let one = AssumeValid::Block(format!("{:064}", 1).parse().unwrap());
    for (text, assumed) in [("0", &none), ("", &none), ("0x0", &none), ("1", &one), ("0x01", &one)]
    {
        let options = options_of(&["--datadir=x", &format!("--assumevalid={text}")]);
        assert_eq!(&options.assumevalid, assumed, "{text}");
    }
    // Given twice, the last one counts, of an option and its negation, too.
    assert!(engine(&["--datadir=x", "--conf=/no/such", "--noconf"]).to_options().is_ok());
    assert!(engine(&["--datadir=x", "--noconf", "--conf=/no/such"]).to_options().is_err());
    assert!(engine(&["--datadir=x", "--settings=/no/such", "--nosettings"]).to_options().is_ok());
    let options = options_of(&["--datadir=y", "--datadir=x", "--par=3", "--par=2"]);
    assert_eq!((options.datadir, options.threads), (PathBuf::from("x"), 2));
}

#[test]
fn contradictions_are_refused() {
    for args in [
        &["--regtest", "--chain", "main"][..],
        &["--chain", "mainnet"],
        &["--assumevalid", "xyz"],
        &["--minimumchainwork", "zz"],
        &["--signetchallenge", "51"],
        &["--chain=signet", "--signetchallenge", "5"],
        &["--blocksdir", "/no/such/directory"],
        &["--conf", "/no/such/file"],
        &["--settings", "/no/such/file"],
        &["--spilldir", "/no/such/directory"],
        &["--method=order", "--hints=h"],
        &["--method=join", "--hints=h"],
        &["--method=swiftsync"],
        &["--method=order", "--spilldir=/"],
        &["--hints=h", "--spilldir=/"],
    ] {
        let all = [&["--datadir=/no/such/directory"], args].concat();
        assert!(engine(&all).to_options().is_err(), "{args:?}");
    }
}

#[test]
fn files_give_way_to_the_command_line() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data");
    let blocks = root.path().join("blocks");
    std::fs::create_dir_all(dir.join("signet")).unwrap();
    std::fs::create_dir(&blocks).unwrap();
    let hash = "11".repeat(32);
    let conf = format!(
        "chain=signet\nsignetchallenge=51\npar=3\nassumevalid=0\n\
         minimumchainwork=ff\nloadblock=a\nloadblock=b\n\
         [signet]\nblocksdir={}\nstopatheight=5\nassumevalid={hash}\n",
        blocks.display()
    );
    std::fs::write(dir.join("bitcoin.conf"), conf).unwrap();
    std::fs::write(dir.join("signet/settings.json"), r#"{"dbcache": "70"}"#).unwrap();
    let datadir = format!("--datadir={}", dir.display());
    let mut chosen = engine(&[&datadir]).to_options().unwrap();
    let of_files = chosen.take_sources(vec![]).unwrap();
    assert_eq!(of_files, [PathBuf::from("a"), PathBuf::from("b")]);
    assert_eq!(chosen.take_sources(vec!["c".into()]), Ok(vec![PathBuf::from("c")]));
    assert!(chosen.first_line(&[]).contains("signetchallenge=51"), "{}", chosen.first_line(&[]));
    // Settings that a rebuild does not follow.
    assert_eq!(chosen.options.stop_at_height, None);
    chosen.take_stop_height(None).unwrap();
    assert_eq!(chosen.options.stop_at_height, Some(5));
    chosen.take_stop_height(Some(0)).unwrap();
    let options = chosen.options;
    assert_eq!(options.network.magic, Network::custom_signet(vec![0x51]).magic);
    assert_eq!((options.threads, options.dbcache_bytes), (3, 70 << 20));
    assert_eq!(options.assumevalid, AssumeValid::Block(hash.parse().unwrap()));
    assert_eq!(options.network.minimum_chain_work.0[..2], [0xff, 0]);
    assert_eq!((options.stop_at_height, options.blocks_dir), (None, Some(blocks)));

    let other = root.path().display().to_string();
    let args = ["--blocksdir", &other, "--par=2", "--dbcache=450", "--stopatheight=7"];
    let more = ["--assumevalid=0", "--minimumchainwork=0x1", "--signetchallenge=52"];
    let all = [&[datadir.as_str()][..], &args, &more].concat();
    let options = options_of(&all);
    assert_eq!(options.network.magic, Network::custom_signet(vec![0x52]).magic);
    assert_eq!((options.threads, options.dbcache_bytes), (2, 450 << 20));
    assert_eq!(options.assumevalid, AssumeValid::Nothing);
    assert_eq!(options.network.minimum_chain_work.0[..2], [1, 0]);
    assert_eq!((options.stop_at_height, options.blocks_dir), (Some(7), Some(other.into())));
}

#[test]
fn the_way_of_syncing_is_automatic_unless_it_is_named() {
    use apus_progress::Method::{InOrder, Join, SwiftSync};
    for (args, method) in [
        (&[][..], None),
        (&["--hints=h"], None),
        (&["--method=order"], Some(InOrder)),
        (&["--method=join"], Some(Join)),
        (&["--method=swiftsync", "--hints=h"], Some(SwiftSync)),
    ] {
        let options = options_of(&[&["--datadir=x"], args].concat());
        assert_eq!(options.method, method, "{args:?}");
    }
    assert!(Arguments::try_parse_from(["sync", "--method=auto"]).is_err());
    let root = tempfile::tempdir().unwrap();
    let spill = root.path().to_path_buf();
    let spilldir = format!("--spilldir={}", spill.display());
    let options = options_of(&["--datadir=x", &spilldir, "--testing=joindepth=7"]);
    assert_eq!((options.join.spill_dir, options.join.depth), (Some(spill), 7));
    let usual = options_of(&["--datadir=x"]);
    assert_eq!((usual.join.spill_dir, usual.join.depth), (None, 144));
}
