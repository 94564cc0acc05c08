//! bitcoin.conf and settings.json, against what Bitcoin Core does with them. Two tables carry the
//! digests that Core's own tests have (settings_tests, argsman_tests).

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use apus_hash::{hex, sha256d};
use apus_wire::Chain;

use super::merge::{ByName, Setting, SettingPlace, Sources};
use super::parse::{parse, parse_settings};
use super::value::{Value, integer, truth};
use super::*;

/// Files by name, in place of a disk.
type Files = BTreeMap<&'static str, &'static str>;

fn given() -> Given {
    Given {
        datadir: None,
        usual_datadir: Ok(PathBuf::from("/home")),
        conf: Which::Usual,
        settings: Which::Usual,
        includes: true,
        others: Vec::new(),
    }
}

fn load(given: &Given, files: &[(&'static str, &'static str)]) -> Result<Config, String> {
    let files: Files = files.iter().copied().collect();
    let loaded = Config::load(given, &|path| {
        let text = files.get(path.to_str().unwrap());
        text.map(|text| text.as_bytes().to_vec()).ok_or(io::ErrorKind::NotFound.into())
    });
    loaded.map_err(|error| error.to_string())
}

/// The settings of a bitcoin.conf in the default directory.
fn conf(text: &'static str) -> Result<Config, String> {
    load(&given(), &[("/home/bitcoin.conf", text)])
}

/// A setting's text on the network that a bitcoin.conf names.
fn found(text: &'static str, name: &str) -> Option<String> {
    conf(text).unwrap().find(name).unwrap().map(|found| found.text)
}

#[test]
fn values_count_as_they_do_for_core() {
    for (text, number, is_true) in [
        ("", 0, true),
        ("0", 0, false),
        ("1", 1, true),
        ("-3", -3, true),
        ("+7", 7, true),
        ("+-7", 0, false),
        ("00", 0, false),
        ("4GB", 4, true),
        (" \t12 ", 12, true),
        ("true", 0, false),
        ("yes", 0, false),
        ("x1", 0, false),
        ("99999999999999999999", i64::MAX, true),
        ("-99999999999999999999", i64::MIN, true),
    ] {
        assert_eq!((integer(text), truth(text)), (number, is_true), "{text:?}");
    }
}

#[test]
fn one_of_many_settings_counts() {
    for (text, name, value) in [
        // The first one in a file, and a section before the top.
        ("dbcache=1\ndbcache=2", "dbcache", Some("1")),
        ("dbcache=1\n[main]\ndbcache=2", "dbcache", Some("2")),
        ("dbcache=1\nmain.dbcache=2", "dbcache", Some("2")),
        ("dbcache=1\n[test]\ndbcache=2", "dbcache", Some("1")),
        ("testnet=1\ndbcache=1\n[test]\ndbcache=2", "dbcache", Some("2")),
        // A negation clears what stands before it.
        ("dbcache=1\nnodbcache=1\ndbcache=3", "dbcache", Some("3")),
        ("dbcache=1\nnodbcache=1", "dbcache", Some("0")),
        ("nodbcache=0", "dbcache", Some("1")),
        ("nodbcache=", "dbcache", Some("0")),
        ("[main]\nnoprune=1\n[other]\n", "prune", Some("0")),
        // White space, comments, Windows' line ends, an empty value.
        ("  par = 3\t# three\r\n\r\n", "par", Some("3")),
        ("par=3 4", "par", Some("3 4")),
        ("assumevalid=\n", "assumevalid", Some("")),
        ("par=a=b", "par", Some("a=b")),
        ("#par=3", "par", None),
        ("parr=3\n\n", "par", None),
        // At the top of a test network's file, some settings count only where they are negated.
        ("regtest=1\nconnect=a", "connect", None),
        ("regtest=1\nnoconnect=1", "connect", Some("0")),
        ("regtest=1\n[regtest]\nconnect=a", "connect", Some("a")),
        // A section of another network that was left open.
        ("[regtest]\npar=3", "par", None),
    ] {
        assert_eq!(found(text, name).as_deref(), value, "{text:?}");
    }
}

#[test]
fn a_line_that_core_refuses_is_named() {
    for (text, line, words) in [
        ("datadir", 1, "'datadir' sets nothing: write name=value"),
        ("\n# x\nnodbcache", 3, "nodbcache=1"),
        ("-datadir=/x", 1, "without a leading '-'"),
        ("rpcuser=a\nrpcpassword=a#b", 2, "rpcpassword"),
        ("main.rpcpassword=a#b", 1, "rpcpassword"),
        ("[main]\nconf=/x", 2, "includeconf="),
        ("noconf=1", 1, "includeconf="),
        ("nodatadir=1", 1, "datadir cannot be negated"),
        ("nosignetchallenge=0", 1, "signetchallenge cannot be negated"),
        ("\u{feff}[regtest]", 1, "sets nothing"),
    ] {
        let refused = conf(text).unwrap_err();
        assert!(refused.starts_with(&format!("/home/bitcoin.conf:{line}: ")), "{refused}");
        assert!(refused.contains(words), "{refused}");
    }
    // What is no setting of Apus is none of its business, wherever it stands.
    let others = conf("rpcpassword=x\nrpcauth=a:b$c\nwallet=w\n[main]\nbind=1\nrpcwait=1").unwrap();
    assert_eq!(others.loaded.warnings, Vec::<String>::new());
    for utf16 in ["r\0e\0g\0t\0e\0s\0t\0=\x001\0\n\0", "par=1\n\0p"] {
        assert!(conf(utf16).unwrap_err().contains("bitcoin.conf: this is not UTF-8"), "{utf16:?}");
    }
}

#[test]
fn sections_that_no_network_has_are_warned_of() {
    let config = conf("[testnet]\npar=2\n[main]\ntest.par=1\nmainnet.par=3\n").unwrap();
    let warnings = config.loaded.warnings.join("\n");
    for words in [":1: section [testnet] is", ":4: section [main.test] is", "[main.mainnet]"] {
        assert!(warnings.contains(words), "{warnings}");
    }
    assert!(
        conf("main.par=1\nregtest.par=2\n[testnet4]\n[signet]").unwrap().loaded.warnings.is_empty()
    );
    // Core puts what follows `[]` to the top of the file.
    let top = conf("[]\npar=3").unwrap();
    assert!(top.loaded.warnings[0].contains("at the top"), "{:?}", top.loaded.warnings);
    assert_eq!(top.find("par").unwrap().map(|found| found.text).as_deref(), Some("3"));
    let marked = conf("\u{feff}par=1\ndbcache=2\n").unwrap();
    assert!(marked.loaded.warnings[0].contains("byte order mark"), "{:?}", marked.loaded.warnings);
    assert_eq!(marked.find("par").unwrap(), None);
}

#[test]
fn the_network_is_of_the_command_line_or_the_top_of_the_file() {
    let with = |others: &[(&'static str, &str)], text| {
        let others = others.iter().map(|(name, value)| (*name, value.to_string())).collect();
        load(&Given { others, ..given() }, &[("/home/bitcoin.conf", text)])
    };
    for (others, text, chain) in [
        (&[][..], "", Chain::Main),
        (&[], "testnet=1", Chain::Test),
        (&[], "signet=", Chain::Signet),
        (&[], "regtest=true", Chain::Main),
        (&[], "regtest=1\nregtest=0", Chain::Main),
        (&[], "chain=testnet4\nchain=regtest", Chain::Testnet4),
        (&[], "[regtest]\nregtest=1\nchain=regtest", Chain::Main),
        (&[("chain", "main")], "chain=regtest", Chain::Main),
        (&[("regtest", "0")], "regtest=1", Chain::Main),
        (&[("regtest", "1")], "regtest=1", Chain::Regtest),
    ] {
        assert_eq!(with(others, text).unwrap().loaded.chain, chain, "{others:?} {text}");
    }
    let twice = with(&[("chain", "main")], "\nregtest=1").unwrap_err();
    assert!(twice.contains("chain=main from the command line and regtest from"), "{twice}");
    assert!(twice.contains("/home/bitcoin.conf:2"), "{twice}");
    let word = conf("regtest=true").unwrap();
    assert!(word.loaded.warnings[0].starts_with("/home/bitcoin.conf:1: 'true' is read as 0"));
    let unknown = conf("chain=mainnet").unwrap_err();
    assert!(unknown.contains("'mainnet' from /home/bitcoin.conf:1"), "{unknown}");
}

#[test]
fn a_command_names_the_network_unless_its_file_does() {
    for (others, conf, second, expected) in [
        (&[][..], "", "", ""),
        (&[("chain", "regtest")], "", "", "-chain=regtest"),
        (&[("regtest", "1")], "regtest=1", "", ""),
        (&[], "signet=1", "", ""),
        (&[], "chain=regtest", "", ""),
        (&[("chain", "signet")], "chain=regtest", "", "-chain=signet"),
        (&[("chain", "main")], "chain=regtest", "", "-chain=main"),
        (
            &[("regtest", "0"), ("chain", "signet")],
            "regtest=1",
            "",
            "-regtest=0 -signet=0 -testnet=0 -testnet4=0 -chain=signet",
        ),
        // A command with the directory that a file names reads another file.
        (&[], "regtest=1\ndatadir=/big", "", "-chain=regtest"),
        (&[], "regtest=1\ndatadir=/big", "regtest=1", ""),
    ] {
        let others = others.iter().map(|(name, value)| (*name, value.to_string())).collect();
        let files = [("/home/bitcoin.conf", conf), ("/big/bitcoin.conf", second)];
        let read = |path: &Path| -> io::Result<Vec<u8>> {
            let file = files.iter().find(|(name, _)| Path::new(name) == path);
            file.map(|(_, text)| text.as_bytes().to_vec()).ok_or(io::ErrorKind::NotFound.into())
        };
        let config = Config::load(&Given { others, ..given() }, &read).unwrap();
        assert_eq!(config.network_options(&read), expected, "{conf}");
    }
}

#[test]
fn files_are_included_one_level_deep() {
    let files = [
        ("/home/bitcoin.conf", "includeconf=b\nincludeconf=/etc/c\npar=1\nregtest.includeconf=r"),
        ("/home/b", "[main]\npar=5\n[test]\nincludeconf=never"),
        ("/etc/c", "dbcache=9\nincludeconf=deeper\npar=7"),
        ("/home/r", "stopatheight=3"),
    ];
    let config = load(&given(), &files).unwrap();
    let text = |config: &Config, name| config.find(name).unwrap().map(|found| found.text);
    assert_eq!(text(&config, "par").as_deref(), Some("5"));
    assert_eq!(text(&config, "dbcache").as_deref(), Some("9"));
    assert_eq!(text(&config, "stopatheight"), None);
    let warnings = config.loaded.warnings.join("\n");
    assert!(warnings.contains("/etc/c:2: includeconf=deeper is ignored"), "{warnings}");
    let alone = load(&Given { includes: false, ..given() }, &files).unwrap();
    assert_eq!(text(&alone, "dbcache"), None);
    // Included files may name the network, which the includes of its section come too late for.
    let files =
        [("/home/bitcoin.conf", "includeconf=n\n[regtest]\npar=2"), ("/home/n", "regtest=1")];
    let config = load(&given(), &files).unwrap();
    assert_eq!((config.loaded.chain, text(&config, "par").as_deref()), (Chain::Regtest, Some("2")));
    for (text, words) in [
        ("\nincludeconf=none", "/home/bitcoin.conf:2: included file /home/none cannot be read"),
        ("noincludeconf=0", "names no file"),
    ] {
        let refused = conf(text).unwrap_err();
        assert!(refused.contains(words), "{refused}");
    }
    conf("includeconf=none\nnoincludeconf=1").unwrap();
}

#[test]
fn the_file_is_looked_for_in_the_first_directory_that_is_named() {
    let files = [
        ("/home/bitcoin.conf", "datadir=/big\nregtest=1\nincludeconf=more"),
        ("/home/more", "par=2"),
        ("/big/regtest/settings.json", r#"{"dbcache": "70"}"#),
        ("/big/bitcoin.conf", "par=9"),
        ("/other/bitcoin.conf", "datadir=/big\npar=3"),
    ];
    let config = load(&given(), &files).unwrap();
    assert_eq!(config.loaded.datadir, PathBuf::from("/big"));
    assert_eq!(config.loaded.datadir_place.clone().unwrap().to_string(), "/home/bitcoin.conf:1");
    let text = |config: &Config, name| config.find(name).unwrap().map(|found| found.text);
    assert_eq!(text(&config, "par").as_deref(), Some("2"));
    assert_eq!(text(&config, "dbcache").as_deref(), Some("70"));
    let datadir = Some(PathBuf::from("/other"));
    let config = load(&Given { datadir: datadir.clone(), ..given() }, &files).unwrap();
    assert_eq!(
        (config.loaded.datadir.to_str().unwrap(), &config.loaded.datadir_place),
        ("/other", &None)
    );
    assert_eq!(text(&config, "par").as_deref(), Some("3"));
    // A relative --conf is meant from there.
    let this = Which::This("../home/more".into());
    let refused = load(&Given { datadir, conf: this, ..given() }, &files).unwrap_err();
    assert!(refused.contains("/other/../home/more"), "{refused}");
    let none = load(&Given { conf: Which::Not, ..given() }, &files).unwrap();
    assert_eq!((none.loaded.datadir.to_str().unwrap(), none.loaded.chain), ("/home", Chain::Main));
    // A section may name its own directory.
    let own = conf("datadir=/a\nregtest=1\n[regtest]\ndatadir=/b\n").unwrap();
    assert_eq!(own.loaded.datadir, PathBuf::from("/b"));
    assert_eq!(conf("datadir=\n").unwrap().loaded.datadir, PathBuf::from("/home"));
}

#[test]
fn no_home_is_no_matter_where_everything_is_named() {
    let homeless = Given { usual_datadir: Err("no home".to_string()), ..given() };
    assert_eq!(load(&homeless, &[]).unwrap_err(), "no home");
    let named = Given { conf: Which::This("/etc/b.conf".into()), ..homeless.clone() };
    let config = load(&named, &[("/etc/b.conf", "datadir=/x")]).unwrap();
    assert_eq!(config.loaded.datadir, PathBuf::from("/x"));
    assert_eq!(load(&named, &[("/etc/b.conf", "par=1")]).unwrap_err(), "no home");
    let datadir = Some(PathBuf::from("/x"));
    assert!(load(&Given { datadir, ..homeless }, &[]).is_ok());
}

#[test]
fn settings_json_has_more_say_than_the_file() {
    let with = |json: &'static str, text: &'static str| {
        load(&given(), &[("/home/settings.json", json), ("/home/bitcoin.conf", text)])
    };
    let one = |json, text, name: &str| {
        with(json, text).unwrap().find(name).unwrap().map(|found| found.text)
    };
    for (json, text, value) in [
        (r#"{"_warning_": "x", "dbcache": "800"}"#, "dbcache=1", Some("800")),
        (r#"{"dbcache": 800}"#, "dbcache=1", Some("800")),
        (r#"{"dbcache": true}"#, "dbcache=1", Some("1")),
        (r#"{"dbcache": false}"#, "dbcache=1", Some("0")),
        (r#"{"dbcache": null}"#, "dbcache=1", None),
        (r#"{"nodbcache": 1}"#, "dbcache=1", Some("1")),
        (r#"{"par": 1}"#, "dbcache=1", Some("1")),
    ] {
        assert_eq!(one(json, text, "dbcache").as_deref(), value, "{json}");
    }
    // Directory and network are settled before the file is found.
    let config = with(r#"{"datadir": "/x", "regtest": true, "chain": "test"}"#, "").unwrap();
    assert_eq!(
        (config.loaded.datadir.to_str().unwrap(), config.loaded.chain),
        ("/home", Chain::Main)
    );
    for json in ["", "[]", "\"x\"", r#"{"a": 1, "a": 2}"#, "{", r#"{"a": 1} x"#] {
        let refused = with(json, "").unwrap_err();
        assert!(refused.contains("/home/settings.json: "), "{refused}");
        assert!(refused.contains("--nosettings"), "{refused}");
        let nosettings = Given { settings: Which::Not, ..given() };
        load(&nosettings, &[("/home/settings.json", json)]).unwrap();
    }
    let deep: String = "[".repeat(100_000);
    assert!(parse_settings(format!("{{\"a\": {deep}").as_bytes()).is_err());
    let list = with(r#"{"dbcache": [1, 2]}"#, "").unwrap();
    assert!(list.find("dbcache").unwrap_err().contains("not a list"));
    for json in [r#"{"dbcache": 20.5}"#, r#"{"dbcache": 1e2}"#, r#"{"dbcache": 1e30}"#] {
        let refused = with(json, "").unwrap().find("dbcache").unwrap_err();
        let words = "/home/settings.json: dbcache must be an integer";
        assert!(refused.starts_with(words), "{refused}");
    }
    // The file may have another name, or be unwanted.
    for (text, value) in [("settings=other.json", Some("5")), ("nosettings=1", None)] {
        let files = [
            ("/home/settings.json", "not json"),
            ("/home/other.json", r#"{"par": 5}"#),
            ("/home/bitcoin.conf", text),
        ];
        let config = load(&given(), &files).unwrap();
        assert_eq!(config.find("par").unwrap().map(|found| found.text).as_deref(), value);
    }
    let this = Given { settings: Which::This("none.json".into()), ..given() };
    assert!(load(&this, &[]).unwrap_err().contains("/home/none.json"));
}

#[test]
fn a_run_says_what_it_took_from_which_file() {
    let files = [
        ("/home/bitcoin.conf", "datadir=/big\ntestnet4=1\npar=2\nprune=550\n"),
        ("/big/testnet4/settings.json", r#"{"dbcache": "4GB"}"#),
    ];
    let mut config = load(&given(), &files).unwrap();
    assert_eq!(config.take_number("dbcache").unwrap(), Some(4));
    assert_eq!(config.take_number("par").unwrap(), Some(2));
    assert_eq!(config.take_number("stopatheight").unwrap(), None);
    let used = config.used();
    assert_eq!(used[0].0, Path::new("/home/bitcoin.conf"));
    assert_eq!(used[0].1, ["datadir=/big", "testnet4=1", "par=2"]);
    assert_eq!(used[1].0, Path::new("/big/testnet4/settings.json"));
    assert_eq!(used[1].1, ["dbcache=4GB"]);
    assert_eq!(config.loaded.warnings.len(), 1);
    assert!(config.loaded.warnings[0].contains("dbcache=4GB is read as dbcache=4"));
}

#[test]
fn flags_and_negations_that_are_followed_are_listed_once() {
    let text = "server=1\nnoconnect=1\nnorest=0\nrpcpassword=x\nrpccookiefile=\nnodebuglogfile=1";
    let mut config = conf(text).unwrap();
    assert_eq!(config.take_flag("server", false), Ok(true));
    assert_eq!(config.take_flag("server", false), Ok(true));
    assert_eq!(config.take_flag("connect", true), Ok(false));
    assert_eq!(config.take_flag("rest", false), Ok(true));
    assert_eq!(config.take_flag("dns", true), Ok(true));
    assert_eq!(config.take_path("rpccookiefile"), Ok(Named::Default));
    assert_eq!(config.take_path("debuglogfile"), Ok(Named::Nothing));
    let used = ["server=1", "noconnect=1", "norest=0", "rpccookiefile=", "nodebuglogfile=1"];
    assert_eq!(config.used()[0].1, used);
}

/// A name with other bytes would be that of another file.
#[test]
fn a_line_that_is_not_utf8_is_refused_if_it_is_used() {
    let load = |bytes: &[u8]| {
        let read = |path: &Path| match path.to_str() {
            Some("/home/bitcoin.conf") => Ok(bytes.to_vec()),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        Config::load(&given(), &read).map_err(|error| error.to_string())
    };
    let config = load(b"# \xe9\nalertnotify=\xe9\npar=2 # \xe9\nblocksdir=/\xe9\nrpcauth=\xe9");
    let mut config = config.unwrap();
    assert_eq!(config.take_number("par"), Ok(Some(2)));
    for refused in [config.find("blocksdir").unwrap_err(), config.secrets("rpcauth").unwrap_err()] {
        assert!(refused.contains("bitcoin.conf:") && refused.contains("not UTF-8"), "{refused}");
    }
    for named in ["datadir", "settings", "includeconf"] {
        let refused = load(&[b"\n", named.as_bytes(), b"=/x/\xe9"].concat()).unwrap_err();
        let words = format!("/home/bitcoin.conf:2: the value of {named} is not UTF-8");
        assert!(refused.starts_with(&words), "{refused}");
    }
}

/// Every list of at most `N` actions from 1 to `last`, none twice in a row, in the order of Core's
/// `ForEachNoDup`; what is left of a list is 0.
fn action_lists<const N: usize>(last: u8) -> Vec<[u8; N]> {
    let mut lists = Vec::new();
    let mut list = [0; N];
    loop {
        let used = list.iter().position(|action| *action == 0).unwrap_or(N);
        if list[..used].windows(2).all(|pair| pair[0] != pair[1]) {
            lists.push(list);
        }
        // The first action counts up, and where it begins anew, the next one does.
        let Some(last_changed) = list.iter().position(|action| *action != last) else {
            return lists;
        };
        list[last_changed] += 1;
        list[..last_changed].fill(1);
    }
}

#[test]
fn settings_merge_as_in_cores_own_test() {
    let mut lines = 0;
    let mut digested = String::new();
    for on_command_line in action_lists::<3>(2) {
        for in_file in action_lists::<3>(4) {
            let mut line = String::new();
            let mut number = 0;
            let mut put = |action: u8, letter: &str, prefix: &str, settings: &mut ByName| {
                let settings = settings.entry("server".to_string()).or_default();
                let place = SettingPlace::CommandLine;
                if action % 2 == 1 {
                    for _ in 0..2 {
                        number += 1;
                        line += &format!(" {prefix}server={letter}{number}");
                        let value = Value::Text(format!("{letter}{number}"));
                        settings.push(Setting { value, place: place.clone() });
                    }
                } else if action > 0 {
                    line += &format!(" {prefix}noserver");
                    settings.push(Setting { value: Value::Bool(false), place });
                }
            };
            let mut sources = Sources::default();
            for action in on_command_line {
                put(action, "a", "-", &mut sources.command_line);
            }
            for action in in_file {
                let (section, prefix) = if action > 2 { ("main", "main.") } else { ("", "") };
                let settings = sources.sections.entry(section.to_string()).or_default();
                put(action, "c", prefix, settings);
            }
            let shown = |setting: Setting| match setting.value {
                Value::Text(text) => format!("{text:?}"),
                Value::Bool(value) => value.to_string(),
                other => panic!("{other:?} was never set"),
            };
            let one = sources.get("main", "server").map_or("null".to_string(), shown);
            let all: Vec<String> = sources
                .list("main", "server")
                .into_iter()
                .map(|s| format!(" {}", shown(s)))
                .collect();
            digested += &format!("{line} || {one} |{}\n", all.concat());
            lines += 1;
        }
    }
    assert_eq!(lines, 371);
    // Of the lines in settings_tests `Merge` that force nothing and ignore no section.
    let expected = "242aa9e9f6845ab314743f06531034fe77e8ff9c70adb76c7dbd33e38f0a89c8";
    assert_eq!(hex(&sha256d(digested.as_bytes()).0), expected);
}

#[test]
fn networks_merge_as_in_cores_own_test() {
    const ACTIONS: [&str; 6] =
        ["testnet4=1", "testnet4=0", "notestnet4=1", "regtest=1", "regtest=0", "noregtest=1"];
    let mut digested = String::new();
    for on_command_line in action_lists::<2>(6) {
        for in_file in action_lists::<2>(6) {
            let texts = |list: [u8; 2]| {
                let used = list.into_iter().take_while(|action| *action > 0);
                used.map(|action| ACTIONS[usize::from(action) - 1]).collect::<Vec<_>>()
            };
            let arguments = texts(on_command_line);
            let lines = texts(in_file);
            let by_name = |lines: &[&str]| {
                let mut settings = ByName::new();
                for line in parse(&lines.join("\n")).unwrap().settings {
                    let setting = Setting { value: line.value, place: SettingPlace::CommandLine };
                    settings.entry(line.name).or_default().push(setting);
                }
                settings
            };
            let mut sources = Sources { command_line: by_name(&arguments), ..Sources::default() };
            sources.sections.insert(String::new(), by_name(&lines));
            for argument in arguments {
                digested += &format!(" -{argument}");
            }
            for line in lines {
                digested += &format!(" {line}");
            }
            let refused = "error: Invalid combination of -regtest, -signet, -testnet, -testnet4 \
                and -chain. Can use at most one.";
            digested += &format!(" || {}\n", sources.chain().map_or(refused, Chain::name));
        }
    }
    // That of argsman_tests `util_ChainMerge`.
    let expected = "c0e33aab0c74e040ddcee9edad59e8148d8e1cacb3cccd9ea1a1f485cb6bad21";
    assert_eq!(hex(&sha256d(digested.as_bytes()).0), expected);
}
