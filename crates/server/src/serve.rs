//! The server: its sockets, and the threads of its runtime, which answer all connections. They are
//! the only threads of Apus that `node::threads` does not start.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use apus_host::threads;
use apus_node::view::View;
use apus_query::Source;
use axum::Router;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{Domain, Socket, Type};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tower::ServiceExt;

use super::auth::Credential;
use super::config::{CookieFile, ServerConfig};
use super::connections::{CONNECTIONS_MAX, Connections, OpenConnection, Paced};
use super::cookie::{Cookie, USER};
use super::live::Live;
use super::page;
use super::router::{App, Client, router};
use super::rpc::Rpc;
use super::state::ServerState;
use super::threads::Threads;

/// Threads that talk to all connections; others compute the answers.
const TALKING_THREADS: usize = 1;
/// Threads that gather what the page shows.
const PAGE_THREADS: usize = 2;
/// The most bytes of the head of a request.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// The most headers of a request.
const HEADERS_MAX: usize = 64;
/// How long answers may be sent after the server was asked to stop.
const STOP_TIME: Duration = Duration::from_secs(2);
/// The most connections that the system keeps until they are accepted.
const BACKLOG: i32 = 1024;
/// Time from an accept that failed to the next.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Why the server did not start.
#[derive(Error, Debug)]
pub enum StartError {
    /// No address can be listened on.
    #[error(
        "cannot listen for RPC on {0}: {1}; choose another port with --rpcport, or start \
         with --server=0"
    )]
    Listen(SocketAddr, #[source] io::Error),
    /// The cookie cannot be written.
    #[error(
        "cannot write the cookie {0}: {1}; name another file with --rpccookiefile, or give a \
         password with --rpcauth and --norpccookiefile"
    )]
    Cookie(String, #[source] io::Error),
    /// The system refuses threads, or has no random bytes.
    #[error("cannot start the server: {0}")]
    System(#[source] io::Error),
}

/// A running server, which stops when it is dropped.
pub struct Server {
    runtime: Option<Runtime>,
    addresses: Vec<SocketAddr>,
    rpc: Arc<Rpc>,
    /// Whether the server has ended.
    ended: watch::Sender<bool>,
    connections: Arc<Connections>,
    /// Removed last.
    cookie: Option<Cookie>,
}

impl Server {
    /// Listens, and answers from now on: `source` and `view` show the same directory. The call
    /// `stop` raises the flag of that name.
    ///
    /// # Errors
    /// No address can be listened on, a cookie that is needed cannot be written, or the system
    /// refuses a thread.
    pub fn start(
        config: &ServerConfig,
        live: &Arc<Live>,
        (source, view): (Source, &Arc<View>),
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, StartError> {
        let listeners = listen(&config.bind)?;
        let cookie = match &config.cookie {
            Some(file) => create_cookie(file)?,
            None => None,
        };
        let mut credentials = config.credentials.clone();
        if let Some(cookie) = &cookie {
            let own = Credential::new(USER, &cookie.password).map_err(StartError::System)?;
            credentials.push(own);
        }
        // The runtime panics if it is refused a thread.
        threads::check_startable(TALKING_THREADS + 1)
            .map_err(|error| StartError::System(io::Error::other(error)))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(TALKING_THREADS)
            .max_blocking_threads(Threads::quick(config.threads) + PAGE_THREADS)
            .thread_name("apus-http")
            .enable_all()
            .build()
            .map_err(StartError::System)?;
        let state = ServerState::new(Arc::clone(live), source, Arc::clone(view), Arc::clone(stop));
        let threads = Threads::new(config.threads, config.work_queue);
        let rpc = Arc::new(Rpc::new(state, config.whitelist.clone(), threads));
        let app = Arc::new(App::new(config, credentials, Arc::clone(&rpc)));
        let (ended, stopped) = watch::channel(false);
        let routes = router(&app, page::routes(live, view, stop, stopped.clone()));
        let connections = Connections::new(CONNECTIONS_MAX);
        let mut addresses = Vec::new();
        for listener in listeners {
            addresses.extend(listener.local_addr());
            let how = How {
                routes: routes.clone(),
                connections: Arc::clone(&connections),
                patience: config.timeout,
                stopped: stopped.clone(),
            };
            runtime.spawn(accept(listener, how));
        }
        Ok(Self { runtime: Some(runtime), addresses, rpc, ended, connections, cookie })
    }

    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns whether there is a cookie: it may be unwanted, or could not be written.
    pub fn has_cookie(&self) -> bool {
        self.cookie.is_some()
    }

    /// Ends the answers that are being computed, waits a moment until they are sent, and closes all
    /// connections.
    fn stop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        self.rpc.stop();
        self.ended.send_replace(true);
        let connections = Arc::clone(&self.connections);
        runtime.block_on(async {
            let _ = tokio::time::timeout(STOP_TIME, connections.all_left()).await;
        });
        runtime.shutdown_timeout(STOP_TIME);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Writes the cookie; `None` if that fails and it is not needed.
fn create_cookie(file: &CookieFile) -> Result<Option<Cookie>, StartError> {
    match Cookie::create(&file.path, file.mode) {
        Ok(cookie) => Ok(Some(cookie)),
        Err(error) if file.is_needed => {
            Err(StartError::Cookie(file.path.display().to_string(), error))
        }
        Err(error) => {
            let path = file.path.display();
            tracing::warn!(
                "cannot write the cookie {path}: {error}; --rpccookiefile names another file, and \
                 --rpcauth gives a password"
            );
            Ok(None)
        }
    }
}

/// Opens the listening sockets: those of all addresses that can be listened on, and at least one.
fn listen(addresses: &[SocketAddr]) -> Result<Vec<TcpListener>, StartError> {
    let mut listeners = Vec::new();
    let mut errors = Vec::new();
    for address in addresses {
        match open(*address) {
            Ok(listener) => listeners.push(listener),
            Err(error) => errors.push(StartError::Listen(*address, error)),
        }
    }
    if listeners.is_empty() && !errors.is_empty() {
        return Err(errors.swap_remove(0));
    }
    errors.iter().for_each(|error| tracing::warn!("{error}"));
    Ok(listeners)
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // As in Core, so that `::` and `0.0.0.0` can both be listened on.
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// The parts that all connections need.
#[derive(Clone)]
struct How {
    routes: Router,
    connections: Arc<Connections>,
    patience: Option<Duration>,
    stopped: watch::Receiver<bool>,
}

async fn accept(listener: TcpListener, mut how: How) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::warn!("cannot listen: {error}"),
    };
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = end(&mut how.stopped) => return,
        };
        match accepted {
            Ok((stream, address)) => {
                // If all connections are busy, this one is closed.
                if let Some(place) = how.connections.enter() {
                    tokio::spawn(talk(stream, address, place, how.clone()));
                }
            }
            // The system has no more descriptors, perhaps.
            Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
        }
    }
}

/// Waits until the server ends.
async fn end(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// Answers the requests of one connection.
async fn talk(stream: TcpStream, address: SocketAddr, place: OpenConnection, how: How) {
    let _ = stream.set_nodelay(true);
    let connection = Arc::clone(&place.connection);
    let client = Client { address: address.ip(), connection: Arc::clone(&connection) };
    let How { routes, patience, mut stopped, .. } = how;
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(client.clone());
        routes.clone().oneshot(request)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).max_buf_size(HEAD_BYTES_MAX).max_headers(HEADERS_MAX);
    http.header_read_timeout(patience);
    let io = TokioIo::new(Paced::new(stream, patience));
    let mut talking = std::pin::pin!(http.serve_connection(io, service));
    let ended = tokio::select! {
        ended = talking.as_mut() => ended,
        () = connection.leaves() => Ok(()),
        () = end(&mut stopped) => {
            // Strangers do not hold up the end.
            if connection.is_named() {
                talking.as_mut().graceful_shutdown();
                talking.await
            } else {
                Ok(())
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(target: "http", %address, %error, "a connection has ended");
    }
    drop(place);
}
