//! A server without sockets, of a directory that is not open: for tests, and to fuzz requests.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use apus_node::Options;
use apus_node::view::View;
use apus_query::Source;
use apus_wire::{Chain, Network};
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::response::Response;
use http_body_util::BodyExt;
use tokio::runtime::Builder;
use tower::ServiceExt;

use super::auth::Credential;
use super::config::ServerConfig;
use super::connections::Connections;
use super::live::{About, Live};
use super::page;
use super::router::{App, Client, router};
use super::rpc::Rpc;
use super::state::ServerState;
use super::threads::Threads;

/// The name and the password that are right, as the header `Authorization` has them.
pub const AUTHORIZATION: &str = "Basic bWU6c2VjcmV0";

/// A server without sockets.
pub struct Offline {
    routes: Router,
    live: Arc<Live>,
    stop: Arc<AtomicBool>,
}

impl Offline {
    /// Starts a server whose configuration `change` changes.
    pub fn new(change: impl FnOnce(&mut ServerConfig)) -> Self {
        let mut config = ServerConfig::new(Vec::new());
        config.credentials = vec![Credential::new("me", "secret").expect("random bytes")];
        change(&mut config);
        let options = Options::new(PathBuf::from("/d"), Network::new(Chain::Regtest));
        let view = Arc::<View>::default();
        let source = Source::of_sync(Arc::clone(&view), &options, || None);
        let live = Live::new(About::new(&options, "1", false));
        let stop = Arc::new(AtomicBool::new(false));
        let state =
            ServerState::new(Arc::clone(&live), source, Arc::clone(&view), Arc::clone(&stop));
        let threads = Threads::new(config.threads, config.work_queue);
        let rpc = Arc::new(Rpc::new(state, config.whitelist.clone(), threads));
        let credentials = config.credentials.clone();
        let app = Arc::new(App::new(&config, credentials, rpc));
        let (_, stopped) = tokio::sync::watch::channel(false);
        let routes = router(&app, page::routes(&live, &view, &stop, stopped));
        Self { routes, live, stop }
    }

    /// Returns what the process reports about itself.
    pub fn live(&self) -> &Live {
        &self.live
    }

    /// Returns whether the work was asked to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Answers a request that comes from an address.
    pub(crate) async fn send(&self, from: IpAddr, mut request: Request<Body>) -> Response {
        let place = Connections::new(1).enter().expect("a free place");
        let client = Client { address: from, connection: Arc::clone(&place.connection) };
        request.extensions_mut().insert(client);
        let Ok(response) = self.routes.clone().oneshot(request).await;
        response
    }

    /// Answers a request of this machine: returns status and body; `None` if it is no request of
    /// HTTP.
    pub fn ask(
        &self,
        (method, path): (&str, &str),
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Option<(u16, Vec<u8>)> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.to_vec())).ok()?;
        let runtime = Builder::new_current_thread().enable_all().build().ok()?;
        runtime.block_on(async {
            let response = self.send([127, 0, 0, 1].into(), request).await;
            let status = response.status().as_u16();
            let body = response.into_body().collect().await.ok()?;
            Some((status, body.to_bytes().to_vec()))
        })
    }
}
