//! The server of a command: started before the work, stopped after it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use apus_node::Observer;
use apus_server::live::{About, End};
use apus_server::{Config, Live, Server};

use super::failure::Failure;
use super::output;
use super::settings::Settings;
use super::{log, service};

/// A server that is to be started, and what it says about the process.
pub struct Serving {
    config: Config,
    about: About,
    /// Whether the command goes on without it if it cannot be started.
    is_optional: bool,
}

impl Serving {
    /// Returns the server with this configuration, for a command with these options.
    pub fn new(config: Config, chosen: &Settings, is_at_rest: bool, is_optional: bool) -> Self {
        let about = About {
            network: chosen.options.network.clone(),
            directory: chosen.options.network_dir(),
            version: env!("APUS_VERSION").to_string(),
            is_at_rest,
            log: log::path(),
        };
        Self { config, about, is_optional }
    }
}

/// Does `work` while the server answers, if there is one, and systemd is told about the work.
///
/// # Errors
/// Those of `work`, and if the server cannot be started.
pub fn serve_while<T, E>(
    serving: Option<Serving>,
    observer: &dyn Observer,
    stop: &Arc<AtomicBool>,
    work: impl FnOnce(&dyn Observer) -> Result<T, E>,
) -> Result<T, Failure>
where
    Failure: From<E>,
{
    let Some(Serving { config, about, is_optional }) = serving else {
        service::ready();
        return work(&service::observer(observer)).map_err(Failure::from);
    };
    let live = Live::new(about);
    let server = match Server::start(&config, &live, stop) {
        Ok(server) => Some(server),
        Err(error) if is_optional => {
            output::note(format_args!("Warning: {error}"));
            None
        }
        Err(error) => return Err(Failure::input(error.to_string())),
    };
    let keeping = live.observer(observer);
    for address in server.iter().flat_map(Server::addresses) {
        keeping.note(&format!("Answering RPC and showing a page on http://{address}/"));
    }
    service::ready();
    let result = work(&service::observer(&keeping)).map_err(Failure::from);
    live.set_end(End { error: result.as_ref().err().map(Failure::text) });
    service::stopping();
    drop(server);
    result
}
