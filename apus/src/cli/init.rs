//! `apus init`: what Apus would do on this machine, and the one command that does it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use apus_host::root::Root;
use apus_net::PeerOptions;
use apus_node::Options;
use apus_peers::LanSearch;
use apus_progress::words::{size, thousands};
use apus_tools::machine::look::{HeldDirectory, Known, Look};
use apus_tools::machine::plan::{MachinePlan, plan};
use apus_wire::Chain;
use clap::Args;

use super::directory::Directory;
use super::failure::Failure;
use super::home::default_datadir;
use super::output;
use super::reporting::Reporting;
use super::table::{Table, stdout_columns};

/// Look at this machine, and say what Apus would do on it: how long that takes, what it needs, and
/// the one command that does it.
///
/// Looks at processor, memory, disks, running nodes, nodes on the local network, and directories of
/// Bitcoin Core, Knots, Umbrel, StartOS and RaspiBlitz. Nothing is changed: directories are opened
/// where they are, and only read. `apus` without arguments does the same.
#[derive(Args)]
pub struct InitCommand {
    #[command(flatten)]
    directory: Directory,
    /// 0: do not look for nodes on the local network, which takes two seconds [default: 1].
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "1",
        value_name = "0|1")]
    lan: Option<u8>,
    /// Look at the system below this directory, for tests and containers.
    #[arg(long, value_name = "DIR", hide = true, default_value = "/")]
    root: PathBuf,
}

/// Runs `apus init`.
pub fn run(command: &InitCommand, quiet: bool) -> Result<ExitCode, Failure> {
    let chosen = command.directory.with_cache(None)?;
    chosen.announce(&[], Reporting { quiet: true, json: false });
    let options = &chosen.options;
    let search = (command.lan != Some(0)).then(|| begin_search(options)).flatten();
    let root = Root::new(&command.root);
    let mut look = Look::new(&root, options, output::now());
    let default = default_datadir(std::env::var_os("HOME")).unwrap_or_default();
    if options.datadir == default && options.network.chain == Chain::Main {
        look.prefer_known(&root);
    }
    let plan = plan(&look, options, &default, is_installed("bitcoind"));
    if quiet {
        output::line(plan.command)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::default();
    add_machine(&mut table, &look);
    table.row("on the network", nodes_text(search));
    add_plan(&mut table, plan);
    output::line(table.text(0, stdout_columns()).trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// Starts to look for nodes on the local network.
fn begin_search(options: &Options) -> Option<LanSearch> {
    let peers = PeerOptions { lan: true, ..PeerOptions::new(options.network.port) };
    LanSearch::begin(&Options { peers: Some(peers), ..options.clone() })
}

/// Returns whether a program is on the PATH.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// Adds what there is.
fn add_machine(table: &mut Table, look: &Look) {
    let cores = if look.cores == 1 { "core" } else { "cores" };
    table.row(
        "processor",
        format!("{} {cores}, signatures checked {}", look.cores, look.kernel.words()),
    );
    let memory = &look.memory;
    table.row(
        "memory",
        match memory.total {
            0 => "the system does not report it".to_string(),
            total => format!("{}, {} free", size(total), size(memory.available)),
        },
    );
    let here = &look.volume;
    let mut disks =
        vec![format!("{} for {}, {}", size(here.free), here.path.display(), here.words())];
    let is_other = |path: &Path| here.mount.as_ref().is_none_or(|mount| mount.point != path);
    let others = look.candidates.iter().filter(|volume| is_other(&volume.path)).take(2);
    disks
        .extend(others.map(|volume| format!("{} in {}", size(volume.free), volume.path.display())));
    table.row("free space", disks.join("; "));
    table.row(
        "directories",
        if look.known.is_empty() {
            "no directory of a node was found".to_string()
        } else {
            look.known.iter().map(known_text).collect::<Vec<_>>().join("; ")
        },
    );
    let running: Vec<String> = look
        .running
        .iter()
        .map(|running| {
            let datadir = running.datadir.as_ref();
            let on = datadir.map_or_else(String::new, |path| format!(" on {}", path.display()));
            format!("{running}{on}")
        })
        .collect();
    let none = "no bitcoind".to_string();
    table.row("running", if running.is_empty() { none } else { running.join("; ") });
}

/// Describes the directory of a node.
fn known_text(known: &Known) -> String {
    let Known { place, held } = known;
    let held = match held {
        HeldDirectory::Chain { height, pruned, .. } => {
            let pruned = if *pruned { ", pruned" } else { "" };
            format!("height {}{pruned}", thousands(u64::from(*height)))
        }
        HeldDirectory::Blocks => "block files without a UTXO set".to_string(),
        HeldDirectory::InUse(Some(by)) => format!("in use by {by}"),
        HeldDirectory::InUse(None) => "in use".to_string(),
        HeldDirectory::Closed(_) => "not readable".to_string(),
    };
    format!("{} of {}, {held}", place.path.display(), place.of)
}

/// Waits for the search, and describes the nodes on the local network.
fn nodes_text(search: Option<LanSearch>) -> String {
    let Some(search) = search else { return "not looked for".to_string() };
    let nodes: Vec<String> = search
        .all()
        .iter()
        .map(|node| {
            let height =
                node.height.map(|height| format!(" at height {}", thousands(height.into())));
            format!("{}{}", node.address, height.unwrap_or_default())
        })
        .collect();
    if nodes.is_empty() {
        "no node was found".to_string()
    } else {
        format!("{}: `apus sync` downloads from there", nodes.join(", "))
    }
}

/// Adds what is to be done.
fn add_plan(table: &mut Table, plan: MachinePlan) {
    let text = |text: String| Some(text).filter(|text| !text.is_empty());
    table.row("plan", plan.what);
    table.row_if("needs", text(plan.needs));
    table.row_if("takes", text(plan.time));
    table.row_if("run", text(plan.command));
}
