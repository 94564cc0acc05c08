//! `apus serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use apus_net::MAXCONNECTIONS;
use apus_node::Run;
use apus_peers::{ServeOptions, ServeReport};
use apus_progress::Watch;
use apus_tools as tools;
use clap::Args;
use serde::Serialize;

use super::bind_address::address;
use super::conf::{CommandLine, Config};
use super::connect_args::take_minimumchainwork;
use super::directory::Directory;
use super::failure::Failure;
use super::home::expand_home;
use super::interrupt::{Interrupted, stop_on_signal};
use super::numbers::{duration, thousands};
use super::reporting::Reporting;
use super::server_args::ServerArgs;
use super::settings::Settings;
use super::upload_target::maxuploadtarget;
use super::with_server::{CommandServer, with_server};

/// Serve the blocks of a data directory to other nodes, until interrupted.
///
/// Another node syncs from this one with `apus sync --connect HOST`, or `bitcoind -connect=HOST`.
/// It gets headers and blocks as from bitcoind, checks them itself, and needs to trust nothing.
/// Transactions and addresses of peers are not served.
///
/// The directory is read and not changed. It may be one that bitcoind wrote, and on a read-only
/// mount; bitcoind must not be running on it. If it is pruned, only its last 288 blocks are served.
/// `apus sync --follow --listen` serves while it follows the chain.
#[derive(Args)]
pub struct ServeCommand {
    #[command(flatten)]
    given: CommandLine,
    #[command(flatten)]
    directory: Directory,
    /// Listen on this address of this machine, ADDR or ADDR:PORT ([ADDR]:PORT for IPv6); may be
    /// given many times. 127.0.0.1 serves only this machine [default: all addresses].
    #[arg(long, value_name = "ADDR")]
    bind: Vec<String>,
    /// Listen on this port; 0: any that is free [default: the network's, 8333 on mainnet].
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Maximum number of connections. When all are taken, a new one takes the place of one of the
    /// part of the network with the most peers; with 12 or fewer, it is closed [default: 125].
    #[arg(long, value_name = "N")]
    maxconnections: Option<usize>,
    /// Send at most this many MiB in 24 hours; with K, M, G or T (powers of 1024), or k, m, g or t
    /// (powers of 1000) behind it, in that unit. Peers that then ask for a block older than a week
    /// are disconnected, and new blocks are sent all the same. 0: no limit [default: 0].
    #[arg(long, value_name = "MIB")]
    maxuploadtarget: Option<String>,
    /// Serve filters of blocks to light wallets (BIP157), from bitcoind's index: `apus index
    /// blockfilterindex` builds it [default: 0].
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "1",
        value_name = "0|1")]
    peerblockfilters: Option<u8>,
    /// Serve this hints file to peers that ask for it (`apus sync --hints=peer`). The chain must
    /// reach the height of the hints.
    #[arg(long, value_name = "FILE")]
    peerhints: Option<PathBuf>,
    /// Speak the encrypted transport with peers that try it (BIP324) [default: 1].
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "1",
        value_name = "0|1")]
    v2transport: Option<u8>,
    /// Announce this node on the local network, by multicast DNS, so that `apus sync` finds it
    /// there [default: 0].
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "1",
        value_name = "0|1")]
    lan: Option<u8>,
    /// Send headers only if the chain has at least this work, in hex [default: that of Bitcoin
    /// Core].
    #[arg(long, value_name = "HEX", hide_short_help = true)]
    minimumchainwork: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
    /// Print one JSON object at the end, and nothing else, to standard output.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ServedJson {
    connections: u64,
    blocks: u64,
    bytes: u64,
    seconds: f64,
}

/// Runs `apus serve`.
pub fn run(command: &ServeCommand, quiet: bool) -> Result<ExitCode, Failure> {
    let mut chosen = command.directory.to_options()?;
    chosen.config.add_command_line(&command.given).map_err(Failure::usage)?;
    let given = command.minimumchainwork.as_deref();
    take_minimumchainwork(&mut chosen, given).map_err(Failure::usage)?;
    let port = chosen.options.network.port;
    let how = command.choose(&mut chosen.config, port).map_err(Failure::usage)?;
    tools::can_serve(&chosen.options)?;
    take_filters(&mut chosen)?;
    let server = command.server.choose(&mut chosen, true).map_err(Failure::usage)?;
    let beside = server.map(|config| {
        let is_optional = !command.server.is_given();
        CommandServer::new(config, &chosen.options, true).serves(&how).optional(is_optional)
    });
    let reporting = Reporting { quiet, json: command.json };
    chosen.announce(&[], reporting);
    let reporter = reporting.reporter();
    let stop = stop_on_signal(Interrupted::WritesNothing);
    let started = Instant::now();
    let run = Run::new(&chosen.options).shown_in(beside.as_ref().map(CommandServer::view));
    let served = with_server(beside, &reporter, &stop, |observer| {
        tools::serve(&run, &how, Watch::new(observer, &stop))
    });
    reporter.finish();
    let ServeReport { connections, blocks, bytes } = served?;
    let elapsed = started.elapsed();
    let json = || {
        let seconds = elapsed.as_secs_f64();
        let json = ServedJson { connections, blocks, bytes, seconds };
        serde_json::to_string(&json).expect("plain data")
    };
    let text = || {
        format!(
            "{} blocks served, {:.1} MB to {} connections in {}",
            thousands(blocks),
            bytes as f64 / 1e6,
            thousands(connections),
            duration(elapsed)
        )
    };
    reporting.report(json, text)?;
    // An interrupt is how this command ends.
    Ok(ExitCode::SUCCESS)
}

impl ServeCommand {
    /// Returns how to serve, by the command line or else the settings files.
    fn choose(&self, config: &mut Config, default_port: u16) -> Result<ServeOptions, String> {
        let port = config.take_port("port")?.unwrap_or(default_port);
        Ok(ServeOptions {
            bind: bind(config, port)?,
            port,
            maxconnections: config.take_number_of("maxconnections")?.unwrap_or(MAXCONNECTIONS),
            maxuploadtarget: maxuploadtarget(config)?,
            // bitcoin.conf does not have it: it is no option of Core.
            lan: self.lan.is_some_and(|on| on != 0),
            v2transport: config.take_flag("v2transport", true)?,
            hints: self.peerhints.as_deref().map(expand_home),
        })
    }
}

/// Sets whether filters are served. A settings file may ask for them in vain.
fn take_filters(chosen: &mut Settings) -> Result<(), Failure> {
    let Settings { options, config } = chosen;
    if !config.take_flag("peerblockfilters", false).map_err(Failure::usage)? {
        return Ok(());
    }
    options.peerblockfilters = tools::has_filters(options)?;
    if options.peerblockfilters {
        return Ok(());
    }
    let why = "the index of filters is not in the directory: `apus index blockfilterindex` builds \
               it";
    if config.is_given("peerblockfilters") {
        return Err(Failure::usage(format!("Cannot serve --peerblockfilters: {why}")));
    }
    let origin = config.origin_of("peerblockfilters");
    config.loaded.warnings.push(format!("{origin} is ignored: {why}"));
    Ok(())
}

fn bind(config: &mut Config, port: u16) -> Result<Vec<SocketAddr>, String> {
    let mut all = config.take_replaced_list("bind")?;
    // An address with `=onion` is where bitcoind takes connections from Tor alone.
    all.retain(|found| found.is_given() || !found.text.ends_with("=onion"));
    all.iter().map(|found| address(&found.origin("bind"), &found.text, port)).collect()
}
