//! The options of `apus sync` for peers, by Core's names.

use std::path::PathBuf;
use std::time::Duration;

use apus_net::{HostKind, MaxDownload, NetKind, PeerOptions, Proxies, Proxy, Target};
use apus_tools::IndexKind;
use clap::{Args, ValueEnum};

use super::bind_address::address;
use super::conf::{Config, Found};
use super::lan::looks_for_nodes;
use super::settings::Settings;
use super::upload_target::maxuploadtarget;

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
    /// Connect through this SOCKS5 proxy, HOST, HOST:PORT or unix:PATH, such as Tor's
    /// 127.0.0.1:9050. Names are resolved by the proxy. With =ipv4, =ipv6 or =onion behind it only
    /// for that network; may be given many times.
    #[arg(long, value_name = "HOST")]
    proxy: Vec<String>,
    /// Connect to onion services through this SOCKS5 proxy, HOST, HOST:PORT or unix:PATH; 0: never
    /// connect to onion services [default: that of --proxy].
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
    /// With --listen, take connections at this address of this machine alone, ADDR or ADDR:PORT
    /// ([ADDR]:PORT for IPv6); may be given many times [default: all addresses].
    #[arg(long, value_name = "ADDR", hide_short_help = true)]
    bind: Vec<String>,
    /// Listen on this port [default: the network's, 8333 on mainnet].
    #[arg(long, value_name = "PORT", hide_short_help = true)]
    port: Option<u16>,
    /// Send at most this many MiB of blocks in 24 hours with --listen, as for `apus serve`. 0: no
    /// limit [default: 0].
    #[arg(long, value_name = "MIB", hide_short_help = true)]
    maxuploadtarget: Option<String>,
    /// With --listen, serve filters of blocks to light wallets (BIP157); needs --blockfilterindex
    /// [default: 0].
    #[arg(long, hide_short_help = true, num_args = 0..=1, require_equals = true,
        default_missing_value = "1", value_name = "0|1")]
    peerblockfilters: Option<u8>,
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
        if let Some(origin) = self.switched_off(&connect, config) {
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
        peers.fixedseeds = self.flag(self.fixedseeds, "fixedseeds", config, true);
        peers.listen = self.listen.is_some_and(|on| on != 0);
        peers.v2transport = self.flag(self.v2transport, "v2transport", config, true);
        peers.proxies = self.proxies(config)?;
        if let Some(count) = number(self.maxconnections, "maxconnections", config)? {
            peers.maxconnections = count;
        }
        // Without connections of our own there is nothing to ask for.
        let seeks = peers.maxconnections > 0;
        peers.dnsseed = self.flag(self.dnsseed, "dnsseed", config, seeks);
        if let Some(port) = number(self.port, "port", config)? {
            peers.port = port;
        }
        if !self.bind.is_empty() && !peers.listen {
            return Err(
                "--bind has no effect without --listen: add --listen, or remove --bind".to_string()
            );
        }
        let bind = self.bind.iter().map(|text| address("--bind", text, peers.port));
        peers.bind = bind.collect::<Result<_, _>>()?;
        if let Some(millis) = number(self.timeout, "timeout", config)? {
            peers.timeout = Duration::from_millis(millis.clamp(1, TIMEOUT_MS_MAX));
        }
        peers.onlynet = self.onlynet(config)?;
        peers.lan = looks_for_nodes(self.lan, &peers)? && seeks;
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
        let listens = peers.listen;
        options.peers = Some(peers);
        self.take_filters(chosen, listens)
    }

    /// Sets whether filters of blocks are served. [`Options::indexes`](apus_node::Options) must be
    /// set before.
    fn take_filters(&self, chosen: &mut Settings, listens: bool) -> Result<(), String> {
        let Settings { options, config } = chosen;
        let given = self.peerblockfilters.map(|on| on != 0);
        if given == Some(true) && !listens {
            return Err("--peerblockfilters has no effect without --listen: add --listen, or \
                        remove --peerblockfilters"
                .to_string());
        }
        if !listens || !given.unwrap_or_else(|| config.is_on("peerblockfilters", false)) {
            return Ok(());
        }
        options.peerblockfilters = options.indexes.contains(&IndexKind::BlockFilterIndex);
        let origin = match given {
            _ if options.peerblockfilters => return Ok(()),
            Some(_) => "--peerblockfilters".to_string(),
            None => origin_of("peerblockfilters", config),
        };
        // A warning says why the index is not built.
        if given.is_none() && config.is_on("blockfilterindex", false) {
            let warning = format!("{origin} is ignored, too: it needs that index");
            config.loaded.warnings.push(warning);
            return Ok(());
        }
        Err(format!("{origin} needs --blockfilterindex: add it, or remove {origin}"))
    }

    /// Returns the option or setting that switches all peers off, if there is one. `connect` are
    /// the values of that option.
    fn switched_off(&self, connect: &[(String, String)], config: &Config) -> Option<String> {
        if !config.is_on("networkactive", true) {
            return Some(origin_of("networkactive", config));
        }
        let is_off = match connect {
            [] => !config.is_on("connect", true),
            given => given.iter().any(|(text, _)| text == "0"),
        };
        is_off.then(|| {
            if self.connect.is_empty() {
                origin_of("connect", config)
            } else {
                "--connect=0".to_string()
            }
        })
    }

    /// Returns the names of the options given that bitcoin.conf may have in sections alone.
    pub fn given_in_sections(&self) -> Vec<&'static str> {
        let given = [
            ("addnode", !self.addnode.is_empty()),
            ("connect", !self.connect.is_empty()),
            ("bind", !self.bind.is_empty()),
            ("port", self.port.is_some()),
        ];
        given.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
    }

    /// Returns an error if the command line sets an option for peers although no peers are used. An
    /// option that switches something off is no contradiction.
    fn refuse_unused(&self, why: &str) -> Result<(), String> {
        let is_on = |flag: Option<u8>| flag.is_some_and(|on| on != 0);
        let names_peer = self.connect.iter().any(|target| target != "0");
        let given = [
            ("connect", names_peer),
            ("addnode", !self.addnode.is_empty()),
            ("proxy", self.proxy.iter().any(|proxy| proxy != "0")),
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
            ("peerblockfilters", is_on(self.peerblockfilters)),
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

    /// Returns the proxies. Those of the command line are added to those of settings files, so that
    /// one for a single network does not switch off the others.
    fn proxies(&self, config: &mut Config) -> Result<Proxies, String> {
        let mut proxies = Proxies::default();
        let found = config.take_list("proxy").into_iter();
        let found = found.map(|Found { text, place }| (text, format!("proxy from {place}")));
        let given = self.proxy.iter().map(|text| (text.clone(), "--proxy".to_string()));
        for (text, what) in found.chain(given) {
            proxies.add(&text).map_err(|why| format!("{what}: {why}"))?;
        }
        let onion = text(self.onion.as_ref(), "onion", config)?;
        if let Some((text, what)) = onion.filter(|(text, _)| !text.is_empty()) {
            proxies.onion = match &*text {
                "0" => None,
                text => Some(Proxy::parse(text).map_err(|why| format!("{what}: {why}"))?),
            };
        }
        Ok(proxies)
    }

    fn onlynet(&self, config: &mut Config) -> Result<Vec<NetKind>, String> {
        if !self.onlynet.is_empty() {
            return Ok(self.onlynet.iter().map(|net| NetKind::from(*net)).collect());
        }
        let mut kinds = Vec::new();
        let mut others = Vec::new();
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
        if !config.is_on("dns", true) {
            refuse_names(peers, &origin_of("dns", config))?;
        }
        if peers.onlynet.is_empty() {
            return Ok(());
        }
        let has_onion = peers.onlynet.contains(&NetKind::Onion);
        let is_clear = peers.onlynet.iter().any(|net| *net != NetKind::Onion);
        if has_onion && peers.proxies.onion.is_none() {
            let what = "onlynet=onion needs Tor's proxy: name it with --onion or --proxy, such as \
                        --onion=127.0.0.1:9050";
            if is_clear {
                config.loaded.warnings.push(what.to_string())
            } else {
                return Err(what.to_string());
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
pub fn origin_of(name: &str, config: &Config) -> String {
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

/// Refuses hosts that the system would have to look up, if `origin` forbids that (Core's `-dns=0`).
fn refuse_names(peers: &PeerOptions, origin: &str) -> Result<(), String> {
    let onion = peers.proxies.onion.iter();
    let proxies = peers.proxies.of_others().chain(onion).filter_map(|proxy| match proxy {
        Proxy::Host(host) => Some(host),
        Proxy::Unix(_) => None,
    });
    let named = [&peers.connect, &peers.addnode, &peers.seednode].into_iter().flatten();
    let named = named.filter(|_| peers.proxies.names.is_none());
    match proxies.chain(named).find(|target| target.kind() == HostKind::Name) {
        Some(target) => Err(format!(
            "{target}: {origin} forbids to look up names: give an address in its place"
        )),
        None => Ok(()),
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
mod tests;
