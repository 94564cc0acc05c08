//! The options of the server, with Core's names and meanings.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use apus_server::config::CookieFile;
use apus_server::{COOKIE_FILE, Credential, ServerConfig, Subnet};
use apus_wire::Chain;
use clap::Args;

use super::bind_address::address;
use super::conf::{self, Found, Named};
use super::home::expand_home;
use super::settings::Settings;

/// The most threads that answer calls.
const THREADS_MAX: usize = 256;
/// The most seconds after which an idle connection is closed: a year.
const TIMEOUT_MAX: u64 = 365 * 24 * 3600;

/// The options of the server.
#[derive(Args)]
#[command(next_help_heading = "Options of the server")]
pub struct ServerArgs {
    /// Answer JSON-RPC as bitcoind does, so that bitcoin-cli and other programs can ask, and show a
    /// page at http://127.0.0.1:8332/ [default: 0 for sync and reindex, 1 for serve].
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "1",
        value_name = "0|1")]
    server: Option<u8>,
    /// Listen for RPC on this port; 0: any that is free [default: the network's, 8332 on mainnet].
    #[arg(long, value_name = "PORT")]
    rpcport: Option<u16>,
    /// Listen for RPC on this address of this machine, ADDR or ADDR:PORT ([ADDR]:PORT for IPv6);
    /// may be given many times, and only together with --rpcallowip [default: 127.0.0.1 and ::1].
    #[arg(long, value_name = "ADDR", hide_short_help = true)]
    rpcbind: Vec<String>,
    /// Let this address, or this part of a network (ADDR/BITS, ADDR/MASK), connect; may be given
    /// many times. Requests and answers are not encrypted.
    #[arg(long, value_name = "ADDR", hide_short_help = true)]
    rpcallowip: Vec<String>,
    /// A user, with the salted hash of the password, as USER:SALT$HASH (Core's share/rpcauth makes
    /// one); may be given many times.
    #[arg(long, value_name = "AUTH", hide_short_help = true)]
    rpcauth: Vec<String>,
    /// The user of --rpcpassword.
    #[arg(long, value_name = "USER", hide_short_help = true)]
    rpcuser: Option<String>,
    /// A password, instead of the random one in .cookie. Other users of this machine can see it on
    /// the command line: bitcoin.conf or --rpcauth is better.
    #[arg(long, value_name = "PASSWORD", hide_short_help = true)]
    rpcpassword: Option<String>,
    /// The file for a random password; a relative path starts in the network's directory [default:
    /// .cookie].
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    rpccookiefile: Option<PathBuf>,
    /// Write no file with a random password.
    #[arg(long, hide_short_help = true, overrides_with = "rpccookiefile")]
    norpccookiefile: bool,
    /// Who may read that file: owner, group or all [default: owner].
    #[arg(long, value_name = "WHO", hide_short_help = true)]
    rpccookieperms: Option<String>,
    /// The methods that a user may call, as USER:METHOD,METHOD; may be given many times.
    #[arg(long, value_name = "LIST", hide_short_help = true)]
    rpcwhitelist: Vec<String>,
    /// Whether users without --rpcwhitelist may call nothing [default: 1 with --rpcwhitelist].
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "1",
        value_name = "0|1", hide_short_help = true)]
    rpcwhitelistdefault: Option<u8>,
    /// Answer REST, too, which needs no password [default: 0].
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "1",
        value_name = "0|1", hide_short_help = true)]
    rest: Option<u8>,
    /// Number of threads that answer calls [default: 16].
    #[arg(long, value_name = "N", hide_short_help = true)]
    rpcthreads: Option<i64>,
    /// The most calls that wait for a thread; others are refused [default: 64].
    #[arg(long, value_name = "N", hide_short_help = true)]
    rpcworkqueue: Option<i64>,
    /// Seconds after which an idle connection is closed; 0: never [default: 30].
    #[arg(long, value_name = "SECONDS", hide_short_help = true)]
    rpcservertimeout: Option<i64>,
    /// Show the page without a password to programs on this machine [default: 0].
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "1",
        value_name = "0|1", hide_short_help = true)]
    pagepublic: Option<u8>,
}

/// Core's default of `-rpcport`.
fn default_port(chain: Chain) -> u16 {
    match chain {
        Chain::Main => 8332,
        Chain::Test => 18_332,
        Chain::Testnet4 => 48_332,
        Chain::Signet => 38_332,
        Chain::Regtest => 18_443,
    }
}

impl ServerArgs {
    /// Returns whether the command line asks for the server.
    pub fn is_given(&self) -> bool {
        self.server == Some(1)
    }

    /// Returns how the server is reached, by the command line or else the settings files; `None` if
    /// there is to be none. A server that is on by default does without a cookie where none can be
    /// written.
    ///
    /// # Errors
    /// An option or a setting is wrong.
    pub fn choose(
        &self,
        chosen: &mut Settings,
        is_default: bool,
    ) -> Result<Option<ServerConfig>, String> {
        let settings = &mut chosen.config;
        if !settings.take_flag("server", is_default)? {
            return Ok(None);
        }
        let allow = allow(settings)?;
        let bind = bind(settings, chosen.options.network.chain, !allow.is_empty())?;
        let mut config = ServerConfig::new(bind);
        config.allow = allow;
        config.rest = settings.take_flag("rest", false)?;
        config.page_is_public = settings.take_flag("pagepublic", false)?;
        config.credentials = credentials(settings)?;
        config.cookie = self.cookie(settings, &chosen.options.network_dir(), is_default)?;
        let list = settings.take_list("rpcwhitelist")?;
        let refuses_others = settings.take_flag("rpcwhitelistdefault", !list.is_empty())?;
        config.whitelist.refuses_others = refuses_others;
        list.iter().for_each(|found| config.whitelist.add(&found.text));
        let count = |number: i64| usize::try_from(number.max(1)).unwrap_or(usize::MAX);
        if let Some(threads) = settings.take_number("rpcthreads")? {
            config.threads = count(threads).min(THREADS_MAX);
        }
        if let Some(queue) = settings.take_number("rpcworkqueue")? {
            config.work_queue = count(queue);
        }
        if let Some(seconds) = settings.take_number("rpcservertimeout")? {
            let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0);
            config.timeout = seconds.map(|seconds| Duration::from_secs(seconds.min(TIMEOUT_MAX)));
        }
        Ok(Some(config))
    }

    /// Returns the file for a random password, which a password that is given replaces.
    fn cookie(
        &self,
        settings: &mut conf::Config,
        network_dir: &Path,
        is_default: bool,
    ) -> Result<Option<CookieFile>, String> {
        let password = settings.find("rpcpassword")?;
        if password.is_some_and(|found| !found.text.is_empty()) || self.norpccookiefile {
            return Ok(None);
        }
        let named = match (&self.rpccookiefile, settings.take_path("rpccookiefile")?) {
            (Some(path), _) => Some(expand_home(path)),
            (None, Named::This(path)) => Some(path),
            (None, Named::Default) => None,
            (None, Named::Nothing) => return Ok(None),
        };
        let perms = settings.take("rpccookieperms")?;
        let mode = match perms.as_ref().map(|found| &*found.text) {
            None | Some("owner") => 0o600,
            Some("group") => 0o640,
            Some("all") => 0o644,
            Some(_) => {
                let what = settings.origin_of("rpccookieperms");
                return Err(format!("{what}: use owner, group or all"));
            }
        };
        let is_needed = named.is_some() || !is_default;
        let path = network_dir.join(named.as_deref().unwrap_or(Path::new(COOKIE_FILE)));
        Ok(Some(CookieFile { path, mode, is_needed }))
    }
}

fn allow(settings: &mut conf::Config) -> Result<Vec<Subnet>, String> {
    let parse = |found: Found| {
        found.text.parse().map_err(|why| format!("{}: {why}", found.origin("rpcallowip")))
    };
    settings.take_list("rpcallowip")?.into_iter().map(parse).collect()
}

/// Returns the addresses to listen on. As in Core, addresses that others can reach need
/// `--rpcallowip`, which says who may connect.
fn bind(
    settings: &mut conf::Config,
    chain: Chain,
    allows: bool,
) -> Result<Vec<SocketAddr>, String> {
    let port = settings.take_port("rpcport")?.unwrap_or_else(|| default_port(chain));
    let named = settings.take_list("rpcbind")?;
    let allowip = settings.origin_of("rpcallowip");
    let warnings = &mut settings.loaded.warnings;
    if !allows || named.is_empty() {
        if allows {
            warnings.push(format!("{allowip} has no effect without --rpcbind"));
        }
        if let Some(first) = named.first() {
            warnings.push(format!(
                "{} is ignored without --rpcallowip, which says who may connect",
                first.with_value("rpcbind")
            ));
        }
        let own: [IpAddr; 2] = [Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()];
        // Any port that is free is one port, of one address.
        let own = own.into_iter().filter(|ip| port != 0 || ip.is_ipv4());
        return Ok(own.map(|ip| SocketAddr::new(ip, port)).collect());
    }
    let parse = |found: &Found| address(&found.origin("rpcbind"), &found.text, port);
    let bind: Vec<SocketAddr> = named.iter().map(parse).collect::<Result<_, _>>()?;
    if bind.iter().any(|address| address.ip().is_unspecified()) {
        warnings.push(
            "The RPC server is not safe to expose to untrusted networks such as the public internet"
                .to_string(),
        );
    }
    Ok(bind)
}

fn credentials(settings: &conf::Config) -> Result<Vec<Credential>, String> {
    let secret = |name: &str| Ok::<_, String>(settings.find(name)?.map(|found| found.text));
    let user = secret("rpcuser")?;
    let mut credentials = Vec::new();
    if let Some(password) = secret("rpcpassword")?.filter(|password| !password.is_empty()) {
        let credential = Credential::new(&user.unwrap_or_default(), &password);
        credentials.push(credential.map_err(|error| error.to_string())?);
    }
    for found in settings.secrets("rpcauth")? {
        let credential = Credential::parse(&found.text);
        let what = found.origin("rpcauth");
        let wrong = || format!("{what} must have the form USER:SALT$HASH; the value is not shown");
        credentials.push(credential.ok_or_else(wrong)?);
    }
    Ok(credentials)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_port_or_get_the_default() {
        for (text, expected) in [
            ("127.0.0.1", "127.0.0.1:8333"),
            ("127.0.0.1:7", "127.0.0.1:7"),
            ("::1", "[::1]:8333"),
            ("[::1]", "[::1]:8333"),
            ("[::1]:7", "[::1]:7"),
        ] {
            let found = address("--bind", text, 8333).unwrap();
            assert_eq!(found.to_string(), expected);
        }
        for wrong in ["", "host", "1.2.3", "127.0.0.1:x"] {
            assert!(address("--bind", wrong, 8333).unwrap_err().contains("--bind"), "{wrong}");
        }
    }
}
