//! The options of `apus sync` for peers, by Core's names.

use std::path::PathBuf;
use std::time::Duration;

use apus_net::{HostKind, MaxDownload, NetKind, PeerOptions, Proxies, Proxy, Target};
use apus_tools::IndexKind;
use clap::{Args, Command, ValueEnum};

use super::bind_address::address;
use super::conf::{Config, Found};
use super::lan::looks_for_nodes;
use super::settings::Settings;
use super::upload_target::maxuploadtarget;

/// Core's networks that Apus does not connect to.
const OTHER_NETS: [&str; 2] = ["i2p", "cjdns"];

/// The longest timeout for opening a connection; the operating system gives up sooner.
const TIMEOUT_MS_MAX: u64 = 10 * 60 * 1000;

/// Options that are of no use without `--listen`.
const NEED_LISTEN: [&str; 3] = ["bind", "maxuploadtarget", "peerblockfilters"];

/// Options of which the value 0 means that there is none, besides those that are 0 or 1.
const OFF_BY_0: [&str; 3] = ["connect", "proxy", "onion"];

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
    /// Give up opening a connection after this many milliseconds; 0: the default [default: 5000].
    #[arg(long, value_name = "MS", hide_short_help = true, allow_negative_numbers = true)]
    timeout: Option<i64>,
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
    /// names a peer, or with `--follow`. The indexes of the options must be set before.
    ///
    /// # Errors
    /// An option or a setting is wrong.
    pub fn choose(&self, chosen: &mut Settings, sources: Sources) -> Result<(), String> {
        let Settings { options, config } = chosen;
        options.swiftsync.witness = self.witness != Some(0);
        let asked_for = asked_for(config);
        let unused = |why: &str| match asked_for.first() {
            Some(name) => {
                Err(format!("--{name} has no effect without peers: {why}, or remove --{name}"))
            }
            None => Ok(()),
        };
        let names_peers =
            ["connect", "addnode", "seednode"].iter().any(|name| config.is_given(name));
        let origin = match sources {
            Sources::None => None,
            Sources::Given => Some("--from".to_string()),
            Sources::Settings => Some(config.origin_of("loadblock")),
        };
        if let Some(origin) = origin.filter(|_| !names_peers && !self.follow) {
            return unused(&format!(
                "with {origin} no peer is asked for blocks: add --connect, --addnode or --follow"
            ));
        }
        let connect = config.take_replaced_list("connect")?;
        if let Some(origin) = switched_off(&connect, config)? {
            if self.follow {
                return Err(format!(
                    "--follow needs peers, and {origin} disables them: remove one of them"
                ));
            }
            return unused(&format!("{origin} disables peers: name a peer with --connect"));
        }
        let needs_listen = NEED_LISTEN.iter().find(|name| asked_for.contains(&name.to_string()));
        if let Some(name) = needs_listen.filter(|_| !is_on(self.listen)) {
            return Err(format!(
                "--{name} has no effect without --listen: add --listen, or remove --{name}"
            ));
        }
        options.peers = Some(self.peers(connect, options.network.port, config)?);
        if is_on(self.listen) && config.take_flag("peerblockfilters", false)? {
            options.peerblockfilters = options.indexes.contains(&IndexKind::BlockFilterIndex);
            if !options.peerblockfilters {
                refuse_filters(config)?;
            }
        }
        Ok(())
    }

    /// Returns the options of a run that uses peers.
    fn peers(
        &self,
        connect: Vec<Found>,
        network_port: u16,
        config: &mut Config,
    ) -> Result<PeerOptions, String> {
        let mut peers = PeerOptions::new(network_port);
        peers.follow = self.follow;
        peers.connect = targets("connect", connect, network_port)?;
        let nodes = config.take_replaced_list("addnode")?;
        peers.addnode = targets("addnode", nodes, network_port)?;
        let seednodes = config.take_replaced_list("seednode")?;
        peers.seednode = targets("seednode", seednodes, network_port)?;
        peers.fixedseeds = config.take_flag("fixedseeds", true)?;
        peers.v2transport = config.take_flag("v2transport", true)?;
        peers.proxies = proxies(config)?;
        if let Some(count) = config.take_number_of("maxconnections")? {
            peers.maxconnections = count;
        }
        // Without connections of our own there is nothing to ask for.
        let seeks = peers.maxconnections > 0;
        peers.dnsseed = config.take_flag("dnsseed", seeks)?;
        if let Some(port) = config.take_port("port")? {
            peers.port = port;
        }
        peers.listen = is_on(self.listen);
        let bind = self.bind.iter().map(|text| address("--bind", text, peers.port));
        peers.bind = bind.collect::<Result<_, _>>()?;
        let millis = config.take_number("timeout")?.and_then(|millis| u64::try_from(millis).ok());
        // As in Core, 0 and negative numbers mean the default.
        if let Some(millis) = millis.filter(|millis| *millis > 0) {
            peers.timeout = Duration::from_millis(millis.min(TIMEOUT_MS_MAX));
        }
        peers.onlynet = onlynet(config)?;
        peers.lan = looks_for_nodes(self.lan, &peers)? && seeks;
        peers.announce = peers.listen && is_on(self.lan);
        check_networks(&peers, config)?;
        if !self.maxdownload.is_empty() {
            let limits = MaxDownload::parse(self.maxdownload.iter().map(String::as_str));
            peers.maxdownload = Some(limits.map_err(|why| format!("--maxdownload: {why}"))?);
        }
        peers.maxuploadtarget = maxuploadtarget(config)?;
        Ok(peers)
    }
}

fn is_on(flag: Option<u8>) -> bool {
    flag.is_some_and(|on| on != 0)
}

/// Returns the names of the options for peers that the command line has. An option that switches
/// something off asks for nothing.
fn asked_for(config: &Config) -> Vec<String> {
    let table = PeerArgs::augment_args(Command::new("peers"));
    let names = table.get_arguments().filter_map(|option| {
        let name = option.get_long()?;
        let has_off = option.is_require_equals_set() || OFF_BY_0.contains(&name);
        let asks = config.given(name).iter().any(|found| !has_off || found.text != "0");
        // `Options::check_witness` says what it needs.
        (asks && name != "witness").then(|| name.to_string())
    });
    names.collect()
}

/// Refuses to serve filters of blocks without their index; it is a warning if another one has said
/// why the index that a settings file asks for is not built.
fn refuse_filters(config: &mut Config) -> Result<(), String> {
    let is_given = config.is_given("peerblockfilters");
    let origin = if is_given {
        "--peerblockfilters".to_string()
    } else {
        config.origin_of("peerblockfilters")
    };
    if is_given || !config.is_on("blockfilterindex", false) {
        return Err(format!("{origin} needs --blockfilterindex: add it, or remove {origin}"));
    }
    config.loaded.warnings.push(format!("{origin} is ignored, too: it needs that index"));
    Ok(())
}

/// Returns the option or setting that switches all peers off, if there is one. `connect` are the
/// values of that option.
fn switched_off(connect: &[Found], config: &mut Config) -> Result<Option<String>, String> {
    if !config.take_flag("networkactive", true)? {
        return Ok(Some(config.origin_of("networkactive")));
    }
    if connect.is_empty() {
        let is_on = config.take_flag("connect", true)?;
        return Ok((!is_on).then(|| config.origin_of("connect")));
    }
    Ok(connect.iter().find(|found| found.text == "0").map(|found| found.with_value("connect")))
}

/// Returns the proxies. Those of the command line are added to those of settings files, so that one
/// for a single network does not switch off the others.
fn proxies(config: &mut Config) -> Result<Proxies, String> {
    let mut proxies = Proxies::default();
    let (given, found): (Vec<_>, Vec<_>) =
        config.take_list("proxy")?.into_iter().partition(Found::is_given);
    for proxy in found.into_iter().chain(given) {
        proxies.add(&proxy.text).map_err(|why| format!("{}: {why}", proxy.origin("proxy")))?;
    }
    if let Some(onion) = config.take("onion")?.filter(|onion| !onion.text.is_empty()) {
        proxies.onion = match &*onion.text {
            "0" => None,
            text => {
                let proxy = Proxy::parse(text);
                Some(proxy.map_err(|why| format!("{}: {why}", onion.origin("onion")))?)
            }
        };
    }
    Ok(proxies)
}

fn onlynet(config: &mut Config) -> Result<Vec<NetKind>, String> {
    let mut kinds = Vec::new();
    let mut others = Vec::new();
    for Found { text, place } in config.take_replaced_list("onlynet")? {
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
    let ignored = |other| format!("{other} is ignored: Apus supports only ipv4, ipv6 and onion");
    config.loaded.warnings.extend(others.into_iter().map(ignored));
    Ok(kinds)
}

/// Checks that every host can be reached through the networks and proxies that the user allows. A
/// host that cannot is an error, so that Apus never connects to it in another way.
fn check_networks(peers: &PeerOptions, config: &mut Config) -> Result<(), String> {
    if let Some(target) = peers.connect.iter().find(|target| !peers.has_way_to(target)) {
        return Err(format!("--connect={target}: {}", target.words_on_proxy()));
    }
    if let Some(target) = peers.seednode.iter().find(|target| !peers.has_way_to(target)) {
        return Err(format!("--seednode={target}: {}", target.words_on_proxy()));
    }
    if !config.take_flag("dns", true)? {
        refuse_names(peers, &config.origin_of("dns"))?;
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
    if !is_clear && config.is_on("dnsseed", false) {
        return Err("dnsseed=1 contradicts onlynet=onion, since DNS seeds are queried over IPv4 \
                    and IPv6: leave out one of them"
            .to_string());
    }
    let left_out = peers.seednode.iter().filter(|target| !peers.reaches_host(target));
    let words = |target| format!("--seednode={target} is not used: --onlynet excludes it");
    config.loaded.warnings.extend(left_out.map(words));
    Ok(())
}

fn targets(name: &str, list: Vec<Found>, port: u16) -> Result<Vec<Target>, String> {
    let parse = |found: Found| {
        Target::parse(&found.text, port).map_err(|why| format!("{}: {why}", found.origin(name)))
    };
    list.into_iter().map(parse).collect()
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

#[cfg(test)]
mod tests;
