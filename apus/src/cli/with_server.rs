//! The server of a command: started before the work, stopped after it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use apus_node::Options;
use apus_node::view::View;
use apus_peers::ServeOptions;
use apus_progress::Observer;
use apus_query::Source;
use apus_server::live::{About, End};
use apus_server::{Live, Server, ServerConfig};

use super::failure::Failure;
use super::output;
use super::{log, service};

/// A server that is to be started, and what it says about the process.
pub struct CommandServer {
    config: ServerConfig,
    about: About,
    /// The options of the work.
    options: Options,
    view: Arc<View>,
    /// Whether the command goes on without it if it cannot be started.
    is_optional: bool,
    /// Whether another program takes the place of this one after the work.
    hands_over: bool,
}

impl CommandServer {
    /// Returns the server with this configuration, for work with these options, which is to show
    /// the directory in [`CommandServer::view`].
    pub fn new(config: ServerConfig, options: &Options, is_at_rest: bool) -> Self {
        let about = About::new(options, env!("APUS_VERSION"), is_at_rest);
        let about = About { log: log::path(), logs: Arc::clone(log::categories()), ..about };
        Self {
            config,
            about,
            options: options.clone(),
            view: Arc::default(),
            is_optional: false,
            hands_over: false,
        }
    }

    /// Returns where the work shows the directory.
    pub fn view(&self) -> Arc<View> {
        Arc::clone(&self.view)
    }

    /// Reports that peers are served like this.
    pub fn serves(mut self, how: &ServeOptions) -> Self {
        self.about.upload_target = how.maxuploadtarget.unwrap_or(0);
        self.about.v2transport = how.v2transport;
        self
    }

    /// Lets the command go on without the server if `is_optional` and it cannot be started.
    pub fn optional(self, is_optional: bool) -> Self {
        Self { is_optional, ..self }
    }

    /// Tells systemd that the service goes on after the work if `hands_over`.
    pub fn hands_over(self, hands_over: bool) -> Self {
        Self { hands_over, ..self }
    }

    fn source(&self, live: &Arc<Live>) -> Source {
        let view = Arc::clone(&self.view);
        if self.about.is_at_rest {
            Source::at_rest(view, &self.options, apus_tools::at_rest(&self.options))
        } else {
            let live = Arc::clone(live);
            let done = move || live.progress()?.estimate?.of_run();
            Source::of_sync(view, &self.options, done)
        }
    }
}

/// Says which password the page asks for; `None` if there is no user with a password.
fn password_words(config: &ServerConfig, server: &Server) -> Option<String> {
    let those = match &config.cookie {
        Some(cookie) if server.has_cookie() => {
            format!("those in {}, on both sides of its colon", cookie.path.display())
        }
        _ if config.credentials.is_empty() => return None,
        _ => "those of rpcauth or rpcuser".to_string(),
    };
    Some(format!("The page asks for a user and a password: {those}; --pagepublic shows it without"))
}

/// Does `work` while the server answers, if there is one, and systemd is told about the work.
///
/// # Errors
/// Those of `work`, and if the server cannot be started.
pub fn with_server<T, E>(
    server: Option<CommandServer>,
    observer: &dyn Observer,
    stop: &Arc<AtomicBool>,
    work: impl FnOnce(&dyn Observer) -> Result<T, E>,
) -> Result<T, Failure>
where
    Failure: From<E>,
{
    let Some(command) = server else {
        service::ready();
        return work(&service::observer(observer)).map_err(Failure::from);
    };
    if !command.about.is_at_rest {
        // The cookie is there before the work begins. If this fails, the error names the cookie.
        let _ = std::fs::create_dir_all(&command.about.directory);
    }
    let live = Live::new(command.about.clone());
    log::show_to(&live);
    let shown = (command.source(&live), &command.view);
    let server = match Server::start(&command.config, &live, shown, stop) {
        Ok(server) => Some(server),
        Err(error) if command.is_optional => {
            output::note(format_args!("Warning: {error}"));
            None
        }
        Err(error) => return Err(Failure::input(error.to_string())),
    };
    let keeping = live.observer(observer);
    for address in server.iter().flat_map(Server::addresses) {
        keeping.note(&format!("Answering RPC and showing a page on http://{address}/"));
    }
    if let Some(server) = &server
        && !command.config.page_is_public
        && let Some(words) = password_words(&command.config, server)
    {
        keeping.note(&words);
    }
    service::ready();
    let result = work(&service::observer(&keeping)).map_err(Failure::from);
    live.set_end(End { error: result.as_ref().err().map(Failure::text) });
    if !command.hands_over {
        service::stopping();
    }
    drop(server);
    result
}
