//! The routes, and who may take each.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use apus_query::RestAnswer;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use prometheus_client::encoding::prometheus_text::CONTENT_TYPE;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{sleep, timeout};

use super::auth::{Credential, Identity, identify};
use super::connections::{Busy, Connection};
use super::jsonrpc::{Answer, answer};
use super::lanes::{Lanes, kind_of_call, kind_of_rest};
use super::metrics;
use super::origin;
use super::rpc::{Calls, Rpc};
use super::subnet::Subnet;
use super::workers::{Budget, NotDone};

/// The most bytes of a request's body (Core's `MAX_BODY_SIZE`).
const BODY_BYTES_MAX: usize = 32 << 20;
/// The most bytes of the bodies of all requests.
const BODIES_BYTES_MAX: usize = 2 * BODY_BYTES_MAX;
/// The time in which the body of a request must come.
const BODY_TIME: Duration = Duration::from_secs(120);
/// How long a wrong password is not answered, as in Core, and a call for which the queue is full.
const DELAY: Duration = Duration::from_millis(250);
/// What a client needs to be allowed, as Core says it.
const REALM: HeaderValue = HeaderValue::from_static("Basic realm=\"jsonrpc\"");

/// What the answers are made from.
pub(crate) struct App {
    pub rpc: Arc<Rpc>,
    allow: Vec<Subnet>,
    credentials: Vec<Credential>,
    page_is_public: bool,
    rest: bool,
    lanes: Lanes,
    bodies: Budget,
}

/// Who is at the other end of a connection.
#[derive(Clone)]
pub(crate) struct Client {
    pub address: IpAddr,
    pub connection: Arc<Connection>,
}

/// What a browser shows if no password is given.
const PASSWORD_WORDS: &str = "\
A user and a password are needed: those in the file .cookie of the network's directory, on both
sides of its colon, or those of rpcauth or rpcuser in bitcoin.conf.
With --pagepublic Apus shows the page without them to programs on its own machine.
";

impl App {
    /// Creates what the answers are made from.
    pub fn new(config: &super::Config, credentials: Vec<Credential>, rpc: Arc<Rpc>) -> Self {
        let allow = Subnet::LOOPBACK.into_iter().chain(config.allow.iter().copied()).collect();
        Self {
            rpc,
            allow,
            credentials,
            page_is_public: config.page_is_public,
            rest: config.rest,
            lanes: Lanes::new(config.threads, config.work_queue),
            bodies: Budget::new(BODIES_BYTES_MAX),
        }
    }

    /// Runs `work` of this kind, and returns its answer once there is room for it.
    async fn work(
        &self,
        kind: String,
        stop: Arc<AtomicBool>,
        work: impl FnOnce() -> Response<Bytes> + Send + 'static,
    ) -> Response {
        // If the client leaves, the work ends.
        let _leaves = RaiseOnDrop(stop);
        match self.lanes.run(kind, self.rpc.state.live.is_busy(), work).await {
            Err(NotDone::QueueFull) => {
                sleep(DELAY).await;
                (StatusCode::SERVICE_UNAVAILABLE, "Work queue depth exceeded").into_response()
            }
            Err(NotDone::Panicked) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            Ok(answer) => answer.map(Body::from),
        }
    }
}

/// Returns the routes. A [`Client`] must be in the extensions of each request.
pub(crate) fn router(app: &Arc<App>, page: Router) -> Router {
    let page = if app.page_is_public {
        page.layer(from_fn(named_or_own))
    } else {
        page.layer(from_fn(named))
    };
    let named = Router::new()
        .route("/", post(rpc))
        .route("/metrics", get(metrics))
        .layer(from_fn(named))
        .with_state(Arc::clone(app));
    let open = Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .with_state(Arc::clone(app));
    let mut all = Router::new().merge(named).merge(page).merge(open);
    if app.rest {
        all =
            all.merge(Router::new().route("/rest/{*path}", any(rest)).with_state(Arc::clone(app)));
    }
    all.layer(from_fn_with_state(Arc::clone(app), admit))
}

/// Refuses requests of other networks and other sites, and finds out who has sent one.
async fn admit(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let client = request.extensions().get::<Client>().cloned();
    let Some(client) = client.filter(|client| is_in(&app.allow, client.address)) else {
        return StatusCode::FORBIDDEN.into_response();
    };
    let header = request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let identity = identify(header, &app.credentials);
    let is_named = matches!(identity, Identity::User(_));
    if !origin::is_allowed(request.headers(), is_named) {
        return (StatusCode::FORBIDDEN, "The headers Host and Origin name another site\n")
            .into_response();
    }
    if is_named {
        client.connection.set_named();
    }
    if app.rpc.is_stopping() {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    request.extensions_mut().insert(identity);
    let busy: Busy = client.connection.work();
    let response = next.run(request).await;
    response.map(|body| Body::new(Answering { body, _busy: busy }))
}

fn is_in(subnets: &[Subnet], address: IpAddr) -> bool {
    subnets.iter().any(|subnet| subnet.contains(address))
}

/// Lets requests with a right password pass.
async fn named(Extension(identity): Extension<Identity>, request: Request, next: Next) -> Response {
    match identity {
        Identity::User(_) => return next.run(request).await,
        Identity::Unnamed => {}
        Identity::Wrong => {
            tracing::warn!("a client gave a wrong password");
            sleep(DELAY).await;
        }
    }
    // A browser shows it; programs that call get none, as from Core.
    let (status, head) = (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, REALM)]);
    if request.method() == Method::GET {
        return (status, head, PASSWORD_WORDS).into_response();
    }
    (status, head).into_response()
}

/// Lets requests of this machine pass, and those with a right password.
async fn named_or_own(
    Extension(client): Extension<Client>,
    Extension(identity): Extension<Identity>,
    request: Request,
    next: Next,
) -> Response {
    match client.address.to_canonical().is_loopback() && identity == Identity::Unnamed {
        true => next.run(request).await,
        false => named(Extension(identity), request, next).await,
    }
}

async fn rpc(
    State(app): State<Arc<App>>,
    Extension(identity): Extension<Identity>,
    request: Request,
) -> Response {
    let Identity::User(user) = identity else { return StatusCode::UNAUTHORIZED.into_response() };
    let (body, room) = match read(&app.bodies, request).await {
        Ok(read) => read,
        Err(status) => return status.into_response(),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let calls = Calls { rpc: Arc::clone(&app.rpc), user, stop: Arc::clone(&stop) };
    app.work(kind_of_call(&body), stop, move || {
        let Answer { status, body } = answer(&body, &calls);
        drop((calls, room));
        let mut response = Response::new(Bytes::from(body.unwrap_or_default()));
        *response.status_mut() = StatusCode::from_u16(status).expect("one of a few");
        if !response.body().is_empty() {
            let json = HeaderValue::from_static("application/json");
            response.headers_mut().insert(header::CONTENT_TYPE, json);
        }
        response
    })
    .await
}

/// Reads the body of a request, once there is room for it.
async fn read(
    bodies: &Budget,
    request: Request,
) -> Result<(Bytes, OwnedSemaphorePermit), StatusCode> {
    let body = request.into_body();
    let bytes = HttpBody::size_hint(&body).exact().unwrap_or(BODY_BYTES_MAX as u64);
    if bytes > BODY_BYTES_MAX as u64 {
        return Err(StatusCode::PAYLOAD_TOO_LARGE);
    }
    let room = bodies.take(bytes as usize).await;
    match timeout(BODY_TIME, Limited::new(body, BODY_BYTES_MAX).collect()).await {
        Err(_) => Err(StatusCode::REQUEST_TIMEOUT),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(StatusCode::PAYLOAD_TOO_LARGE),
        Ok(Err(_)) => Err(StatusCode::BAD_REQUEST),
        Ok(Ok(body)) => Ok((body.to_bytes(), room)),
    }
}

async fn metrics(State(app): State<Arc<App>>) -> Response {
    let rpc = Arc::clone(&app.rpc);
    app.work("metrics".into(), Arc::default(), move || {
        let text = metrics::text(&rpc.state.live, |method, params| rpc.ask(method, params));
        let mut response = Response::new(Bytes::from(text));
        let kind = HeaderValue::from_static(CONTENT_TYPE);
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    })
    .await
}

/// Returns whether the directory is open.
async fn ready(State(app): State<Arc<App>>) -> Response {
    match app.rpc.state.view.look(|_| ()) {
        Some(()) => "ok\n".into_response(),
        None => {
            (StatusCode::SERVICE_UNAVAILABLE, "the directory is not open yet\n").into_response()
        }
    }
}

/// Answers REST, which needs no password, as in Core.
async fn rest(State(app): State<Arc<App>>, request: Request) -> Response {
    let uri = request.uri().clone();
    let (body, room) = match read(&app.bodies, request).await {
        Ok(read) => read,
        Err(status) => return status.into_response(),
    };
    let (stop, rpc) = (Arc::new(AtomicBool::new(false)), Arc::clone(&app.rpc));
    let raised = Arc::clone(&stop);
    app.work(kind_of_rest(uri.path()), stop, move || {
        let _listed = rpc.list("rest", &raised);
        let path = uri.path().strip_prefix("/rest/").unwrap_or_default();
        let source = &rpc.state.source;
        let answer = apus_query::rest(source, path, uri.query(), &body, &raised);
        drop(room);
        let mut response = Response::new(Bytes::new());
        match answer {
            None => *response.status_mut() = StatusCode::NOT_FOUND,
            Some(RestAnswer { status, content_type, body }) => {
                *response.body_mut() = body.into();
                *response.status_mut() = StatusCode::from_u16(status).expect("one of a few");
                let kind = HeaderValue::from_static(content_type);
                response.headers_mut().insert(header::CONTENT_TYPE, kind);
            }
        }
        response
    })
    .await
}

/// Raises a flag when it is dropped.
struct RaiseOnDrop(Arc<AtomicBool>);

impl Drop for RaiseOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// A body whose connection is busy until hyper has taken all of it.
struct Answering {
    body: Body,
    _busy: Busy,
}

impl HttpBody for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
