//! The options of `apus sync` for peers, by Core's names.

use std::path::PathBuf;
use std::time::Duration;

use apus_net::{MaxDownload, NetKind, PeerOptions, Target};
use clap::{Args, ValueEnum};

use super::conf::{Config, Found};
use super::lan::looks_for_nodes;
use super::settings::Settings;
use super::upload_target::maxuploadtarget;

/// The port of a proxy that is named without one: that of Tor (Core's default).
const PROXY_PORT: u16 = 9050;

/// Core's networks that Apus does not connect to.
const OTHER_NETS: [&str; 2] = ["i2p", "cjdns"];

/// The longest timeout for opening a connection; the operating system gives up sooner.
const TIMEOUT_MS_MAX: u64 = 10 * 60 * 1000;

/// The options for peers.
#[derive(Args)]
#[command(next_help_heading = "Peers")]
pub struct PeerArgs {
    /// Connect only to this peer, HOST or HOST:PORT; may be given many times. 0: use no peers, only
    /// stored blocks and files.
    #[arg(long, value_name = "HOST")]
    connect: Vec<String>,
    /// Connect to this peer in addition to others; may be given many times.
    #[arg(long, value_name = "HOST")]
    addnode: Vec<String>,
    /// Do not end at the tip, but follow new blocks and reorganisations until interrupted.
    #[arg(long)]
    follow: bool,
    /// Connect through this SOCKS5 proxy, HOST or HOST:PORT, such as Tor's 127.0.0.1:9050. Names
    /// are resolved by the proxy.
    #[arg(long, value_name = "HOST")]
    proxy: Option<String>,
    /// Connect to onion services through this SOCKS5 proxy, HOST or HOST:PORT; 0: never connect to
    /// onion services [default: that of --proxy].
    #[arg(long, value_name = "HOST", hide_short_help = true)]
    onion: Option<String>,
    /// Download at most this many MB (10^6 bytes) per second [default: no limit].
    ///
    /// MB@FROM-TO limits the download between two times of the local day, such as 20@08:00-23:00 or
    /// 2@22:00-06:30; several are separated by commas, or given one by one. At other times there is
    /// no limit, unless a number without times is given, too. Where times overlap, the lowest limit
    /// holds.
    #[arg(long, value_name = "MB[@FROM-TO]", allow_negative_numbers = true)]
    maxdownload: Vec<String>,
    /// Ask this node for addresses of peers if too few are known; may be given many times.
    #[arg(long, value_name = "HOST", hide_short_help = true)]
    seednode: Vec<String>,
    /// Query DNS seeds for addresses of peers if too few are known [default: 1].
    #[arg(long, hide_short_help = true, num_args = 0..=1, require_equals = true,
        default_missing_value = "1", value_name = "0|1")]
    dnsseed: Option<u8>,
    /// Connect to addresses that Apus comes with, if neither the address book nor DNS seeds have
    /// any [default: 1].
    #[arg(long, hide_short_help = true, num_args = 0..=1, require_equals = true,
        default_missing_value = "1", value_name = "0|1")]
    fixedseeds: Option<u8>,
    /// Look for nodes on the local network, for two seconds at the start, and use them in addition
    /// to other peers; 0: do not look [default: 1; 0 with --connect, --proxy, --onion or
    /// --onlynet]. Given with --listen, announce this node there, too.
    ///
    /// A question for services of the type _bitcoin._tcp is sent by multicast DNS to the interfaces
    /// that have a private address; at most four nodes that answer, at private addresses, are
    /// connected to.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "1",
        value_name = "0|1")]
    lan: Option<u8>,
    /// Maximum number of connections; Apus itself opens at most 10 of them [default: 125].
    #[arg(long, value_name = "N", hide_short_help = true)]
    maxconnections: Option<usize>,
    /// Connect only to hosts of this network, except those named with --connect or --addnode; may
    /// be given many times. Without ipv4 and ipv6, no DNS seed is queried.
    #[arg(long, value_enum, value_name = "NET", hide_short_help = true)]
    onlynet: Vec<Net>,
    /// Accept connections from peers, and serve headers and blocks to all peers, as `apus serve`
    /// does [default: 0, unlike Bitcoin Core].
    #[arg(long, hide_short_help = true, num_args = 0..=1, require_equals = true,
        default_missing_value = "1", value_name = "0|1")]
    listen: Option<u8>,
    /// Listen on this port [default: the network's, 8333 on mainnet].
    #[arg(long, value_name = "PORT", hide_short_help = true)]
    port: Option<u16>,
    /// Send at most this many MiB of blocks in 24 hours with --listen, as for `apus serve`. 0: no
    /// limit [default: 0].
    #[arg(long, value_name = "MIB", hide_short_help = true)]
    maxuploadtarget: Option<String>,
    /// Give up opening a connection after this many milliseconds [default: 5000].
    #[arg(long, value_name = "MS", hide_short_help = true)]
    timeout: Option<u64>,
    /// 0: download without witnesses the blocks that SwiftSync does not store. Fewer bytes are
    /// downloaded, and witness commitments and block weights are not checked [default: 1].
    ///
    /// Needs --hints or --snapshot, --prune with a size, and blocks that are assumed valid. Blocks
    /// that are stored are downloaded with their witnesses, and the final report lists the rules
    /// that were not checked.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "1",
        value_name = "0|1")]
    witness: Option<u8>,
    /// Try the encrypted transport first (BIP324) [default: 1].
    #[arg(long, hide_short_help = true, num_args = 0..=1, require_equals = true,
        default_missing_value = "1", value_name = "0|1")]
    v2transport: Option<u8>,
}

/// A network for `--onlynet`.
#[derive(Clone, Copy, ValueEnum)]
enum Net {
    Ipv4,
    Ipv6,
    /// Onion services of Tor; needs --onion or --proxy.
    Onion,
}

impl From<Net> for NetKind {
    fn from(net: Net) -> Self {
        match net {
            Net::Ipv4 => Self::Ipv4,
            Net::Ipv6 => Self::Ipv6,
            Net::Onion => Self::Onion,
        }
    }
}

/// Where the user has named sources of blocks.
#[derive(Clone, Copy)]
pub enum Sources {
    None,
    /// With `--from`.
    Given,
    /// With `loadblock` in a settings file.
    Settings,
}

impl Sources {
    /// Returns where the user has named `sources`; `given` are those of the command line.
    pub fn of(given: &[PathBuf], sources: &[PathBuf]) -> Self {
        match (given, sources) {
            (_, []) => Self::None,
            ([], _) => Self::Settings,
            _ => Self::Given,
        }
    }
}

impl PeerArgs {
    /// Sets the options for peers. Peers are used if no sources of blocks are given, if the user
    /// names a peer, or with `--follow`.
    ///
    /// # Errors
    /// An option or a setting is wrong.
    pub fn choose(&self, chosen: &mut Settings, sources: Sources) -> Result<(), String> {
        chosen.options.swiftsync.witness = self.witness != Some(0);
        let is_asked_for = self.follow
            || [&self.connect, &self.addnode, &self.seednode].iter().any(|l| !l.is_empty());
        let origin = match sources {
            Sources::None => None,
            Sources::Given => Some("--from".to_string()),
            Sources::Settings => Some(origin_of("loadblock", &chosen.config)),
        };
        if let Some(origin) = origin.filter(|_| !is_asked_for) {
            return self.refuse_unused(&format!(
                "with {origin} no peer is asked for blocks: add --connect, --addnode or --follow"
            ));
        }
        let Settings { options, config } = chosen;
        let port = options.network.port;
        let mut peers = PeerOptions::new(port);
        let connect = texts(&self.connect, "connect", config);
        let is_off = connect.is_empty() && !config.is_on("connect", true);
        if is_off || connect.iter().any(|(text, _)| text == "0") {
            let origin = match self.connect.is_empty() {
                true => origin_of("connect", config),
                false => "--connect=0".to_string(),
            };
            if self.follow {
                return Err(format!(
                    "--follow needs peers, and {origin} disables them: remove one of them"
                ));
            }
            return self
                .refuse_unused(&format!("{origin} disables peers: name a peer with --connect"));
        }
        peers.connect = targets(connect, port)?;
        peers.addnode = targets(texts(&self.addnode, "addnode", config), port)?;
        peers.seednode = targets(texts(&self.seednode, "seednode", config), port)?;
        peers.dnsseed = self.flag(self.dnsseed, "dnsseed", config, true);
        peers.fixedseeds = self.flag(self.fixedseeds, "fixedseeds", config, true);
        peers.listen = self.listen.is_some_and(|on| on != 0);
        peers.v2transport = self.flag(self.v2transport, "v2transport", config, true);
        peers.proxy = proxy(self.proxy.as_ref(), "proxy", config)?.flatten();
        peers.onion = match proxy(self.onion.as_ref(), "onion", config)? {
            Some(onion) => onion,
            None => peers.proxy.clone(),
        };
        if let Some(count) = number(self.maxconnections, "maxconnections", config)? {
            peers.maxconnections = count;
        }
        if let Some(port) = number(self.port, "port", config)? {
            peers.port = port;
        }
        if let Some(millis) = number(self.timeout, "timeout", config)? {
            peers.timeout = Duration::from_millis(millis.clamp(1, TIMEOUT_MS_MAX));
        }
        peers.onlynet = self.onlynet(config)?;
        peers.lan = looks_for_nodes(self.lan, &peers)?;
        peers.announce = peers.listen && self.lan.is_some_and(|on| on != 0);
        self.check_networks(&peers, config)?;
        if !self.maxdownload.is_empty() {
            let limits = MaxDownload::parse(self.maxdownload.iter().map(String::as_str));
            peers.maxdownload = Some(limits.map_err(|why| format!("--maxdownload: {why}"))?);
        }
        let target = self.maxuploadtarget.as_deref();
        if target.is_some() && !peers.listen {
            return Err("--maxuploadtarget has no effect without --listen: add --listen, or \
                        remove --maxuploadtarget"
                .to_string());
        }
        peers.maxuploadtarget = maxuploadtarget(target, config)?;
        peers.follow = self.follow;
        options.peers = Some(peers);
        Ok(())
    }

    /// Returns an error if the command line sets an option for peers although no peers are used. An
    /// option that switches something off is no contradiction.
    fn refuse_unused(&self, why: &str) -> Result<(), String> {
        let is_on = |flag: Option<u8>| flag.is_some_and(|on| on != 0);
        let given = [
            ("addnode", !self.addnode.is_empty()),
            ("proxy", self.proxy.as_deref().is_some_and(|proxy| proxy != "0")),
            ("onion", self.onion.as_deref().is_some_and(|proxy| proxy != "0")),
            ("maxdownload", !self.maxdownload.is_empty()),
            ("seednode", !self.seednode.is_empty()),
            ("dnsseed", is_on(self.dnsseed)),
            ("fixedseeds", is_on(self.fixedseeds)),
            ("lan", is_on(self.lan)),
            ("maxconnections", self.maxconnections.is_some()),
            ("onlynet", !self.onlynet.is_empty()),
            ("listen", is_on(self.listen)),
            ("port", self.port.is_some()),
            ("maxuploadtarget", self.maxuploadtarget.is_some()),
            ("timeout", self.timeout.is_some()),
            ("v2transport", is_on(self.v2transport)),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) => {
                Err(format!("--{name} has no effect without peers: {why}, or remove --{name}"))
            }
            None => Ok(()),
        }
    }

    fn flag(&self, given: Option<u8>, name: &str, config: &Config, default: bool) -> bool {
        given.map_or_else(|| config.is_on(name, default), |on| on != 0)
    }

    fn onlynet(&self, config: &mut Config) -> Result<Vec<NetKind>, String> {
        if !self.onlynet.is_empty() {
            return Ok(self.onlynet.iter().map(|net| NetKind::from(*net)).collect());
        }
        let (mut kinds, mut others) = (Vec::new(), Vec::new());
        for Found { text, place } in config.take_list("onlynet") {
            match Net::from_str(&text, true) {
                Ok(net) => kinds.push(NetKind::from(net)),
                Err(_) if OTHER_NETS.contains(&&*text.to_lowercase()) => {
                    others.push(format!("{place}: onlynet={text}"));
                }
                Err(_) => {
                    return Err(format!(
                        "{place}: onlynet={text} names no network: use ipv4, ipv6 or onion"
                    ));
                }
            }
        }
        // An empty list would allow every network.
        if kinds.is_empty() && !others.is_empty() {
            return Err(format!(
                "{}: Apus supports only ipv4, ipv6 and onion. Choose from these with --onlynet",
                others.join(", ")
            ));
        }
        let ignored =
            |other| format!("{other} is ignored: Apus supports only ipv4, ipv6 and onion");
        config.loaded.warnings.extend(others.into_iter().map(ignored));
        Ok(kinds)
    }

    /// Checks that every host can be reached through the networks and proxies that the user allows.
    /// A host that cannot is an error, so that Apus never connects to it in another way.
    fn check_networks(&self, peers: &PeerOptions, config: &mut Config) -> Result<(), String> {
        if let Some(target) = peers.connect.iter().find(|target| !peers.has_way_to(target)) {
            return Err(format!("--connect={target}: {}", target.words_on_proxy()));
        }
        if let Some(target) = peers.seednode.iter().find(|target| !peers.has_way_to(target)) {
            return Err(format!("--seednode={target}: {}", target.words_on_proxy()));
        }
        if peers.onlynet.is_empty() {
            return Ok(());
        }
        let has_onion = peers.onlynet.contains(&NetKind::Onion);
        let is_clear = peers.onlynet.iter().any(|net| *net != NetKind::Onion);
        if has_onion && peers.onion.is_none() {
            let what = "onlynet=onion needs Tor's proxy: name it with --onion or --proxy, such as \
                        --onion=127.0.0.1:9050";
            match is_clear {
                true => config.loaded.warnings.push(what.to_string()),
                false => return Err(what.to_string()),
            }
        }
        if !is_clear && self.flag(self.dnsseed, "dnsseed", config, false) {
            return Err(
                "dnsseed=1 contradicts onlynet=onion, since DNS seeds are queried over IPv4 and \
                 IPv6: leave out one of them"
                    .to_string(),
            );
        }
        let left_out = peers.seednode.iter().filter(|target| !peers.reaches_host(target));
        let words = |target| format!("--seednode={target} is not used: --onlynet excludes it");
        config.loaded.warnings.extend(left_out.map(words));
        Ok(())
    }
}

/// Names the setting `name` that is in effect and its file, for an error.
fn origin_of(name: &str, config: &Config) -> String {
    match config.find(name) {
        Ok(Some(Found { text, place })) => format!("{name}={text} from {place}"),
        // A list, in settings.json.
        _ => format!("{name} from a settings file"),
    }
}

/// Returns all values of an option that may be given many times, from the command line or else from
/// a settings file, each with its name for an error.
fn texts(given: &[String], name: &str, config: &mut Config) -> Vec<(String, String)> {
    match given {
        [] => {
            let found = config.take_list(name).into_iter();
            found.map(|Found { text, place }| (text, format!("{name} from {place}"))).collect()
        }
        given => given.iter().map(|text| (text.clone(), format!("--{name}"))).collect(),
    }
}

fn targets(texts: Vec<(String, String)>, port: u16) -> Result<Vec<Target>, String> {
    let parse = |(text, what): (String, String)| {
        Target::parse(&text, port).map_err(|why| format!("{what}: {why}"))
    };
    texts.into_iter().map(parse).collect()
}

/// Returns the value of an option, from the command line or else from a settings file, with its
/// name for an error.
fn text(
    given: Option<&String>,
    name: &str,
    config: &mut Config,
) -> Result<Option<(String, String)>, String> {
    match given {
        Some(text) => Ok(Some((text.clone(), format!("--{name}")))),
        None => {
            let found = config.take(name)?;
            Ok(found.map(|Found { text, place }| (text, format!("{name} from {place}"))))
        }
    }
}

/// Returns the proxy that an option names, from the command line or else from a settings file;
/// `Some(None)` if it is switched off.
fn proxy(
    given: Option<&String>,
    name: &str,
    config: &mut Config,
) -> Result<Option<Option<Target>>, String> {
    let Some((text, what)) = text(given, name, config)?.filter(|(text, _)| !text.is_empty()) else {
        return Ok(None);
    };
    if text == "0" {
        return Ok(Some(None));
    }
    let proxy = Target::parse(&text, PROXY_PORT).map_err(|why| format!("{what}: {why}"))?;
    match proxy.needs_a_proxy() {
        true => Err(format!(
            "{what}: {proxy} is an onion or I2P address, which cannot be used as a proxy"
        )),
        false => Ok(Some(Some(proxy))),
    }
}

/// Returns the number that an option has, from the command line or else from a settings file.
pub fn number<T: TryFrom<i64>>(
    given: Option<T>,
    name: &str,
    config: &mut Config,
) -> Result<Option<T>, String> {
    match given {
        Some(number) => Ok(Some(number)),
        None => match config.take_number(name)? {
            None => Ok(None),
            Some(number) => match T::try_from(number) {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(format!("{name}={number} in a settings file is out of range")),
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use apus_net::{MaxDownload, NetKind, PeerOptions};

    use crate::cli::options_of_sync;

    /// The options for peers of `apus sync` with these arguments and this bitcoin.conf.
    fn peers(conf: &str, args: &[&str]) -> Result<Option<PeerOptions>, String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("bitcoin.conf"), conf).unwrap();
        let datadir = format!("--datadir={}", dir.path().display());
        let all = ["apus", "sync", &datadir].into_iter().chain(args.iter().copied());
        Ok(options_of_sync(all.map(OsString::from).collect())?.peers)
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
        let (main, regtest) = (peers(conf, &[]).unwrap().unwrap(), ["--regtest"]);
        assert_eq!((main.connect.len(), main.port), (1, 9));
        assert_eq!(connect(conf, &regtest), Some(vec!["5.6.7.8:18444".to_string()]));
        assert_eq!(peers(conf, &regtest).unwrap().unwrap().port, 18_444);
    }

    #[test]
    fn each_option_has_the_name_and_the_meaning_that_core_gives_it() {
        let conf = "proxy=127.0.0.1\ndnsseed=0\nonlynet=onion\nonlynet=i2p\ntimeout=0\n\
                    maxconnections=7\nv2transport=0\nlisten=1\n";
        let found = peers(conf, &["--maxdownload=2.5"]).unwrap().unwrap();
        assert_eq!(found.proxy.map(|proxy| proxy.to_string()), Some("127.0.0.1:9050".into()));
        assert_eq!((found.lan, found.onlynet), (false, vec![NetKind::Onion]));
        assert_eq!((found.maxconnections, found.timeout.as_millis()), (7, 1));
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
        assert!(peers("maxconnections=-1", &[]).is_err());
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
        for option in [
            "--proxy=127.0.0.1",
            "--onion=127.0.0.1",
            "--maxdownload=1",
            "--dnsseed",
            "--lan",
            "--maxconnections=3",
            "--onlynet=ipv4",
            "--listen",
            "--port=1",
            "--timeout=9",
            "--v2transport",
        ] {
            let name = option.split('=').next().unwrap();
            for (none, words) in [("--from=a", "with --from"), ("--connect=0", "--connect=0")] {
                let what = peers("", &[none, option]).unwrap_err();
                assert!(what.contains(name) && what.contains(words), "{what}");
            }
            let named = if name == "--lan" { "--addnode=1.2.3.4" } else { "--connect=1.2.3.4" };
            assert!(peers("", &["--from=a", named, option]).is_ok(), "{option}");
        }
        assert!(peers("", &["--connect=0", "--addnode=1.2.3.4"]).is_err());
        assert!(peers("", &["--connect=0", "--seednode=1.2.3.4"]).is_err());
        let off = ["-connect=0", "-listen=0", "-dnsseed=0", "-onion=0", "-proxy=0", "-lan=0"];
        assert_eq!(peers("", &off), Ok(None));
        assert_eq!(peers("", &["--from=a", "--v2transport=0", "--listen=0"]), Ok(None));
        for (conf, words) in
            [("loadblock=a", "loadblock=a from "), ("connect=0", "connect=0 from ")]
        {
            let what = peers(conf, &["--maxdownload=1"]).unwrap_err();
            assert!(what.contains(words) && what.contains("bitcoin.conf"), "{what}");
        }
        let unheard = peers("", &["--maxuploadtarget=5"]).unwrap_err();
        assert!(unheard.contains("without --listen"), "{unheard}");
        let heard = peers("maxuploadtarget=1G", &["--listen"]).unwrap().unwrap();
        assert_eq!(heard.maxuploadtarget, Some(1 << 30));
        // Settings of bitcoind's own are no mistake.
        assert_eq!(peers("proxy=127.0.0.1\nlisten=1\n", &["--from=a"]), Ok(None));
    }

    const ONION: &str = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion";

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
            ("proxy=127.0.0.1\nonion=0", None),
            ("proxy=127.0.0.1\nnoonion=1", None),
            ("proxy=0", None),
        ] {
            let found = peers(conf, &[]).unwrap().unwrap();
            assert_eq!(found.onion.map(|proxy| proxy.to_string()).as_deref(), onion, "{conf}");
        }
        let found = peers("proxy=10.0.0.1:1", &["--onion=127.0.0.1"]).unwrap().unwrap();
        assert_eq!(found.onion.map(|proxy| proxy.to_string()).as_deref(), Some(default));
        assert_eq!(found.proxy.map(|proxy| proxy.to_string()).as_deref(), Some("10.0.0.1:1"));
    }
}
