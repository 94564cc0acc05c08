//! The options of `apus sync` for peers, by Core's names.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::chosen::Chosen;
use super::conf::{Config, Found};
use crate::sync::{NetKind, PeerOptions, Target};

/// The port of Tor's proxy, which `--proxy` without a port means (Core's default).
const PROXY_PORT: u16 = 9050;

/// How peers are found and used.
#[derive(Args)]
#[command(next_help_heading = "Peers")]
pub struct PeerArgs {
    /// Connect to this peer alone, HOST or HOST:PORT; may be given many times. 0: to nobody, and
    /// connect the blocks that are stored and in files.
    #[arg(long, value_name = "HOST")]
    connect: Vec<String>,
    /// Connect to this peer, too; may be given many times.
    #[arg(long, value_name = "HOST")]
    addnode: Vec<String>,
    /// Stay at the tip, and follow new blocks and reorganisations until interrupted.
    #[arg(long)]
    follow: bool,
    /// Connect through this SOCKS5 proxy, HOST or HOST:PORT, such as Tor's 127.0.0.1:9050. Names
    /// are resolved by the proxy.
    #[arg(long, value_name = "HOST")]
    proxy: Option<String>,
    /// Download at most so many MB (10^6 bytes) a second.
    #[arg(long, value_name = "MB")]
    maxdownload: Option<f64>,
    /// Ask this node for addresses of others, where there are too few.
    #[arg(long, value_name = "HOST", hide_short_help = true)]
    seednode: Vec<String>,
    /// Ask DNS seeds for addresses of peers, where there are too few [default: 1].
    #[arg(long, hide_short_help = true, num_args = 0..=1, require_equals = true,
        default_missing_value = "1", value_name = "0|1")]
    dnsseed: Option<u8>,
    /// The most connections; no more than 10 are opened from here [default: 125].
    #[arg(long, value_name = "N", hide_short_help = true)]
    maxconnections: Option<usize>,
    /// Connect to hosts of this kind alone; may be given many times.
    #[arg(long, value_enum, value_name = "NET", hide_short_help = true)]
    onlynet: Vec<Net>,
    /// Let others connect to us [default: 0, unlike Bitcoin Core, since nothing is served yet].
    #[arg(long, hide_short_help = true, num_args = 0..=1, require_equals = true,
        default_missing_value = "1", value_name = "0|1")]
    listen: Option<u8>,
    /// The port that they connect to [default: the network's].
    #[arg(long, value_name = "PORT", hide_short_help = true)]
    port: Option<u16>,
    /// Milliseconds after which a connection that cannot be opened is given up [default: 5000].
    #[arg(long, value_name = "MS", hide_short_help = true)]
    timeout: Option<u64>,
    /// Try the encrypted transport first (BIP324) [default: 1].
    #[arg(long, hide_short_help = true, num_args = 0..=1, require_equals = true,
        default_missing_value = "1", value_name = "0|1")]
    v2transport: Option<u8>,
}

/// A part of the internet.
#[derive(Clone, Copy, ValueEnum)]
enum Net {
    Ipv4,
    Ipv6,
    /// Onion services of Tor; needs --proxy.
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

impl PeerArgs {
    /// Sets how blocks come from peers: where no files are given, or a peer is named or `--follow`
    /// asked for.
    ///
    /// # Errors
    /// An option or a setting is wrong.
    pub fn choose(&self, chosen: &mut Chosen, has_sources: bool) -> Result<(), String> {
        let is_asked_for = self.follow
            || [&self.connect, &self.addnode, &self.seednode].iter().any(|l| !l.is_empty());
        if has_sources && !is_asked_for {
            return Ok(());
        }
        let Chosen { options, config } = chosen;
        let port = options.network.port;
        let mut peers = PeerOptions::new(port);
        let connect = texts(&self.connect, "connect", config);
        let is_off = connect.is_empty() && !config.is_on("connect", true);
        if is_off || connect.iter().any(|(text, _)| text == "0") {
            if self.follow {
                return Err("--follow needs peers, and --connect=0 asks for none".to_string());
            }
            return Ok(());
        }
        peers.connect = targets(connect, port)?;
        peers.addnode = targets(texts(&self.addnode, "addnode", config), port)?;
        peers.seednode = targets(texts(&self.seednode, "seednode", config), port)?;
        peers.dnsseed = self.flag(self.dnsseed, "dnsseed", config, true);
        peers.listen = self.listen.is_some_and(|on| on != 0);
        peers.v2transport = self.flag(self.v2transport, "v2transport", config, true);
        if let Some((text, what)) = text(self.proxy.as_ref(), "proxy", config)?
            && text != "0"
        {
            let proxy = Target::parse(&text, PROXY_PORT);
            peers.proxy = Some(proxy.map_err(|why| format!("{what}: {why}"))?);
        }
        if let Some(count) = number(self.maxconnections, "maxconnections", config)? {
            peers.maxconnections = count;
        }
        if let Some(port) = number(self.port, "port", config)? {
            peers.port = port;
        }
        if let Some(millis) = number(self.timeout, "timeout", config)? {
            peers.timeout = Duration::from_millis(millis.max(1));
        }
        peers.onlynet = self.onlynet(config)?;
        peers.maxdownload = match self.maxdownload {
            Some(mb) if mb > 0.0 && mb.is_finite() => Some((mb * 1e6).max(1.0) as u64),
            Some(mb) => return Err(format!("--maxdownload={mb} is not a number above 0")),
            None => None,
        };
        peers.follow = self.follow;
        options.peers = Some(peers);
        Ok(())
    }

    fn flag(&self, given: Option<u8>, name: &str, config: &Config, default: bool) -> bool {
        given.map_or_else(|| config.is_on(name, default), |on| on != 0)
    }

    fn onlynet(&self, config: &mut Config) -> Result<Vec<NetKind>, String> {
        if !self.onlynet.is_empty() {
            return Ok(self.onlynet.iter().map(|net| NetKind::from(*net)).collect());
        }
        let mut kinds = Vec::new();
        for Found { text, place } in config.take_list("onlynet") {
            match Net::from_str(&text, true) {
                Ok(net) => kinds.push(NetKind::from(net)),
                // Core connects to networks that Apus does not know.
                Err(_) => config.loaded.warnings.push(format!(
                    "{place}: onlynet={text} is ignored: Apus connects to ipv4, ipv6 and onion"
                )),
            }
        }
        Ok(kinds)
    }
}

/// All values of an option that may be given many times, from the command line or else from a
/// settings file, each with what it is to be called in an error.
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

/// The value of an option, from the command line or else from a settings file.
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

/// The number that an option has, from the command line or else from a settings file.
fn number<T: TryFrom<i64>>(
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
