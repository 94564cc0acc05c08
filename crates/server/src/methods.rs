//! The list of all methods: those here, and those of `apus-query` about blocks and coins.

use std::fmt::Write;
use std::sync::atomic::AtomicBool;

use apus_query::json::{Json, json};
use apus_query::params::{Arg, ArgKind, check_args};
use apus_query::{About, RpcError, Waiting};
use serde_json::Value;

use super::state::{Call, ServerState};
use super::threads::Lane;
use super::{control, network};

/// A method of this crate.
pub(crate) struct Own {
    about: About,
    run: fn(&Call) -> Result<Json, RpcError>,
}

/// A method.
#[derive(Clone, Copy)]
pub(crate) enum Method {
    /// One of this crate.
    Own(&'static Own),
    /// One about blocks and coins.
    Query(&'static apus_query::Method),
}

impl Method {
    pub fn about(self) -> &'static About {
        match self {
            Self::Own(own) => &own.about,
            Self::Query(method) => &method.about,
        }
    }

    /// Returns which threads answer a call.
    pub fn lane(self, params: &[Value]) -> Lane {
        // The other actions of a scan tell how far it is, or end it.
        let name = self.about().name;
        let is_scan = name.starts_with("scan");
        let is_long = LONG.contains(&name)
            && (!is_scan || params.first().is_some_and(|action| action == "start"));
        if is_long { Lane::Long } else { Lane::Quick }
    }

    /// Answers a call, which may take long, ends early once `stop` is true, and may have to be made
    /// again ([`Waiting`]).
    pub fn call(
        self,
        state: &ServerState,
        params: &[Value],
        (stop, waiting): (&AtomicBool, &Waiting),
    ) -> Result<Json, RpcError> {
        match self {
            Self::Own(own) => {
                check_args(&own.about.help(), own.about.args, params)?;
                (own.run)(&Call { state, params, waiting })
            }
            Self::Query(method) => apus_query::call(&state.source, method, params, (stop, waiting)),
        }
    }
}

/// The methods that may take more than some milliseconds: they read whole blocks, all coins or all
/// headers, or what they are given may be large.
const LONG: &[&str] = &[
    "decoderawtransaction",
    "decodescript",
    "dumptxoutset",
    "getblock",
    "getblockstats",
    "getchaintips",
    "getdescriptorinfo",
    "getnetworkhashps",
    "getrawtransaction",
    "gettxoutproof",
    "gettxoutsetinfo",
    "gettxspendingprevout",
    "scanblocks",
    "scantxoutset",
    "sendrawtransaction",
    "submitpackage",
    "testmempoolaccept",
    "verifychain",
    "verifytxoutproof",
];

pub(crate) fn find(name: &str) -> Option<Method> {
    let own = OWN.iter().find(|method| method.about.name == name).map(Method::Own);
    own.or_else(|| apus_query::find(name).map(Method::Query))
}

pub(crate) fn all() -> impl Iterator<Item = Method> {
    OWN.iter().map(Method::Own).chain(apus_query::methods().iter().map(Method::Query))
}

/// Returns the help of one method, or a line about each, by category.
fn help(call: &Call) -> Result<Json, RpcError> {
    let name = call.param(0).as_str().unwrap_or_default();
    if !name.is_empty() {
        let help = find(name).map(|method| method.about().help());
        let help = help.unwrap_or_else(|| format!("help: unknown command: {name}\n"));
        return Ok(json(&help.strip_suffix('\n').unwrap_or(&help)));
    }
    let mut all: Vec<&About> = all().map(Method::about).collect();
    all.retain(|about| about.category != HIDDEN);
    all.sort_by_key(|about| (about.category, about.name));
    let mut text = String::new();
    let mut category = "";
    for about in all {
        if about.category != category {
            category = about.category;
            let between = if text.is_empty() { "" } else { "\n" };
            let (first, rest) = category.split_at(1);
            let _ = writeln!(text, "{between}== {}{rest} ==", first.to_uppercase());
        }
        let _ = writeln!(text, "{}", about.usage());
    }
    Ok(json(&text.trim_end()))
}

fn echo(call: &Call) -> Result<Json, RpcError> {
    Ok(json(&call.params))
}

macro_rules! methods {
    ($($category:ident $name:literal $run:path, [$($arg:expr),*] $description:literal;)*) => {
        &[$(Own {
            about: About {
                name: $name,
                category: $category,
                args: &[$($arg),*],
                description: $description,
            },
            run: $run,
        }),*]
    };
}

const CHAIN: &str = "blockchain";
const CONTROL: &str = "control";
const HIDDEN: &str = "hidden";
const NETWORK: &str = "network";
const ZMQ: &str = "zmq";

const ANY: ArgKind = ArgKind::Any;

const OWN: &[Own] = methods![
    CONTROL "getmemoryinfo" control::getmemoryinfo, [Arg::optional("mode", ArgKind::Text)]
        "Returns the locked memory in use: none, since Apus keeps no keys.";
    CONTROL "getrpcinfo" control::getrpcinfo, []
        "Returns the calls that are being answered, and where the log is.";
    CONTROL "help" help, [Arg::optional("command", ArgKind::Text)]
        "Lists all methods, or describes one.";
    CONTROL "logging" control::logging,
        [Arg::optional("include", ArgKind::Array), Arg::optional("exclude", ArgKind::Array)]
        "Switches categories of the log on and then off, and returns which are on.";
    CONTROL "stop" control::stop, [Arg::optional("wait", ArgKind::Number)]
        "Saves what is done, and ends Apus.";
    CONTROL "uptime" control::uptime, []
        "Returns the seconds since the start.";
    HIDDEN "echo" echo,
        [
            Arg::optional("arg0", ANY), Arg::optional("arg1", ANY), Arg::optional("arg2", ANY),
            Arg::optional("arg3", ANY), Arg::optional("arg4", ANY), Arg::optional("arg5", ANY),
            Arg::optional("arg6", ANY), Arg::optional("arg7", ANY), Arg::optional("arg8", ANY),
            Arg::optional("arg9", ANY)
        ]
        "Returns its parameters, to test clients.";
    NETWORK "getaddednodeinfo" network::getaddednodeinfo, [Arg::optional("node", ArgKind::Text)]
        "Returns an empty list: no peer is added while Apus runs.";
    NETWORK "getaddrmaninfo" network::getaddrmaninfo, []
        "Returns how many addresses of peers a sync knows, by network: `tried` has those that it \
         has connected to.";
    NETWORK "getconnectioncount" network::getconnectioncount, []
        "Returns the number of peers.";
    NETWORK "getnettotals" network::getnettotals, []
        "Returns the bytes received from peers and sent to them.";
    NETWORK "getnetworkinfo" network::getnetworkinfo, []
        "Returns the version, the services, the networks and the number of peers.";
    NETWORK "getnodeaddresses" network::getnodeaddresses,
        [Arg::optional("count", ArgKind::Number), Arg::optional("network", ArgKind::Text)]
        "Returns an empty list: the addresses are those of a sync, which it does not share.";
    NETWORK "getpeerinfo" network::getpeerinfo, []
        "Returns all peers, as they were about a second ago. What Apus does not know is 0.";
    NETWORK "listbanned" network::none, []
        "Returns an empty list: Apus bans no peers.";
    CHAIN "getblockfrompeer" network::getblockfrompeer,
        [Arg::needed("blockhash", ArgKind::Text), Arg::needed("peer_id", ArgKind::Number)]
        "Fails: Apus chooses itself which peer it asks for a block.";
    ZMQ "getzmqnotifications" network::none, []
        "Returns an empty list: Apus sends no ZMQ notifications.";
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_is_described_once() {
        for Own { about, .. } in OWN {
            assert!(apus_query::find(about.name).is_none(), "{}", about.name);
            assert!(about.description.ends_with('.'), "{}", about.name);
            assert_eq!(OWN.iter().filter(|other| other.about.name == about.name).count(), 1);
            assert_eq!(find(about.name).unwrap().about().name, about.name);
        }
        for name in LONG {
            assert!(find(name).is_some(), "{name}");
        }
        assert!(find("getblock").is_some() && find("getwalletinfo").is_none());
    }
}
