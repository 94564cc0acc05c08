//! The routes, and who may take each.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use apus_query::{RestAnswer, Waiting};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body as HttpBody;
use prometheus_client::encoding::prometheus_text::CONTENT_TYPE;
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

use super::auth::{Credential, Identity, identify};
use super::connections::Connection;
use super::jsonrpc::{Answer, answer, parse};
use super::metrics;
use super::origin;
use super::rpc::{Calls, Rpc};
use super::subnet::Subnet;
use super::threads::{Budget, FREE_BYTES, Lane, NotDone, Room};

/// The most bytes of a request's body (Core's `MAX_BODY_SIZE`).
const BODY_BYTES_MAX: usize = 32 << 20;
/// The most bytes of all bodies above 64 KiB.
const BODIES_BYTES_MAX: usize = 2 * BODY_BYTES_MAX;
/// The time in which the body of a request must come.
const BODY_TIME: Duration = Duration::from_secs(120);
/// The most bytes of a body without a password: that of `getutxos`, with 15 outpoints in hex.
const OPEN_BODY_BYTES_MAX: usize = 16 << 10;
/// The time in which it must come.
const OPEN_BODY_TIME: Duration = Duration::from_secs(10);
/// The most bytes of all answers above 64 KiB that are being sent to those with a password.
const ANSWERS_BYTES_MAX: usize = 64 << 20;
/// The same for those without one.
const OPEN_ANSWERS_BYTES_MAX: usize = 32 << 20;
/// How long a wrong password is not answered, as in Core, and a call for which the queue is full.
const DELAY: Duration = Duration::from_millis(250);
/// Headers with which a proxy says that a request is not its own.
const FORWARDED: [&str; 4] = ["forwarded", "x-forwarded-for", "x-real-ip", "via"];
/// Where the paths of REST begin.
const REST: &str = "/rest/";
/// The permission that a client needs, in Core's words.
const REALM: HeaderValue = HeaderValue::from_static("Basic realm=\"jsonrpc\"");

/// The source of answers.
pub(crate) struct App {
    pub rpc: Arc<Rpc>,
    allow: Vec<Subnet>,
    credentials: Vec<Credential>,
    page_is_public: bool,
    rest: bool,
    bodies: Budget,
    answers: Budget,
    /// Those of requests without a password.
    open_answers: Budget,
}

/// Who is at the other end of a connection.
#[derive(Clone)]
pub(crate) struct Client {
    pub address: IpAddr,
    pub connection: Arc<Connection>,
}

/// The page that a browser shows without a password.
const PASSWORD_WORDS: &str = "\
A user and a password are needed: those in the file .cookie of the network's directory, on both
sides of its colon, or those of rpcauth or rpcuser in bitcoin.conf.
With --pagepublic Apus shows the page without them to programs on its own machine.
";

impl App {
    /// Creates what the answers are made from.
    pub fn new(config: &super::ServerConfig, credentials: Vec<Credential>, rpc: Arc<Rpc>) -> Self {
        let allow = Subnet::LOOPBACK.into_iter().chain(config.allow.iter().copied()).collect();
        Self {
            rpc,
            allow,
            credentials,
            page_is_public: config.page_is_public,
            rest: config.rest,
            bodies: Budget::new(BODIES_BYTES_MAX),
            answers: Budget::new(ANSWERS_BYTES_MAX),
            open_answers: Budget::new(OPEN_ANSWERS_BYTES_MAX),
        }
    }
}

/// Returns what is answered to a call that is not done.
async fn refusal(why: NotDone) -> Response {
    match why {
        NotDone::QueueFull => {
            sleep(DELAY).await;
            (StatusCode::SERVICE_UNAVAILABLE, "Work queue depth exceeded").into_response()
        }
        NotDone::NoRoom => {
            let what = "Other large requests and answers are being sent: try again\n";
            (StatusCode::SERVICE_UNAVAILABLE, what).into_response()
        }
        NotDone::Panicked => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Returns the routes. A [`Client`] must be in the extensions of each request.
pub(crate) fn router(app: &Arc<App>, page: Router) -> Router {
    let page =
        page.merge(Router::new().route("/metrics", get(metrics)).with_state(Arc::clone(app)));
    let page = page.layer(from_fn_with_state(Arc::clone(app), watching));
    let only_post = async || {
        let kind = [(header::CONTENT_TYPE, "text/html; charset=ISO-8859-1")];
        (StatusCode::METHOD_NOT_ALLOWED, kind, "JSONRPC server handles only POST requests")
    };
    let named = Router::new().route("/", post(rpc).put(only_post)).with_state(Arc::clone(app));
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
    if ![Method::GET, Method::HEAD, Method::POST, Method::PUT].contains(request.method()) {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    // A request that needs no password must not tell whether one is right.
    let is_open = app.rest
        && request.uri().path().starts_with(REST)
        && origin::is_allowed(request.headers(), false);
    let header = request.headers().get(header::AUTHORIZATION).filter(|_| !is_open);
    let header = header.map(HeaderValue::as_bytes);
    let identity = identify(header, &app.credentials);
    let is_named = matches!(identity, Identity::User(_));
    if identity == Identity::Wrong {
        tracing::warn!("{} gave a wrong password", client.address);
        sleep(DELAY).await;
        return password_needed(request.method());
    }
    if !origin::is_allowed(request.headers(), is_named) {
        return (StatusCode::FORBIDDEN, "The headers Host and Origin name another site\n")
            .into_response();
    }
    client.connection.hear(is_named);
    if app.rpc.is_stopping() {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    request.extensions_mut().insert(identity);
    next.run(request).await
}

fn is_in(subnets: &[Subnet], address: IpAddr) -> bool {
    subnets.iter().any(|subnet| subnet.contains(address))
}

/// Asks for a password. A browser shows the words; programs that call get none, as from Core.
fn password_needed(method: &Method) -> Response {
    let status = StatusCode::UNAUTHORIZED;
    let head = [(header::WWW_AUTHENTICATE, REALM)];
    if method == Method::GET {
        return (status, head, PASSWORD_WORDS).into_response();
    }
    (status, head).into_response()
}

/// Lets those see page and metrics who may call every method and, if the page is public, programs
/// of this machine see the page.
async fn watching(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    Extension(identity): Extension<Identity>,
    request: Request,
    next: Next,
) -> Response {
    if let Identity::User(user) = &identity {
        if app.rpc.whitelist.allows_all(user) {
            return next.run(request).await;
        }
        let what = "This user may call some methods alone (--rpcwhitelist)\n";
        return (StatusCode::FORBIDDEN, what).into_response();
    }
    let is_page = app.page_is_public && request.uri().path() != "/metrics";
    if is_page && is_own(&client, request.headers()) {
        return next.run(request).await;
    }
    password_needed(request.method())
}

/// Returns whether a program of this machine sent a request, and no proxy for another.
fn is_own(client: &Client, headers: &HeaderMap) -> bool {
    let is_forwarded = FORWARDED.iter().any(|name| headers.contains_key(*name));
    client.address.to_canonical().is_loopback() && !is_forwarded
}

async fn rpc(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    Extension(identity): Extension<Identity>,
    request: Request,
) -> Response {
    let Identity::User(user) = identity else { return password_needed(request.method()) };
    let bytes = announced(&request).unwrap_or(BODY_BYTES_MAX).min(BODY_BYTES_MAX);
    let mut body_room = Room::default();
    if let Err(why) = app.bodies.grow(&mut body_room, bytes).await {
        return refusal(why).await;
    }
    let body = match read(request, BODY_BYTES_MAX, BODY_TIME).await {
        Ok(body) => body,
        Err(status) => return status.into_response(),
    };
    let _busy = client.connection.work();
    let stop = Arc::new(AtomicBool::new(false));
    // If the client leaves, the work ends.
    let _leaves = RaiseOnDrop(Arc::clone(&stop));
    let calls = Calls {
        rpc: &app.rpc,
        user,
        stop,
        answers: &app.answers,
        room: Mutex::default(),
        is_admitted: AtomicBool::new(false),
    };
    let request = if body.len() <= FREE_BYTES {
        parse(&body)
    } else {
        match app.rpc.threads.run(Lane::Quick, false, move || parse(&body)).await {
            Ok((request, _)) => request,
            Err(why) => return refusal(why).await,
        }
    };
    match answer(request, &calls).await {
        Err(why) => refusal(why).await,
        Ok(Answer { status, body }) => {
            let kind = body.is_some().then_some("application/json");
            respond(status, kind, calls.room.into_inner().hold(body.unwrap_or_default()))
        }
    }
}

/// Returns a response with a status that is one of a few.
fn respond(status: u16, content_type: Option<&'static str>, body: Bytes) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).expect("one of a few");
    if let Some(kind) = content_type {
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    response
}

/// Returns the length of a body, if the request says it.
fn announced(request: &Request) -> Option<usize> {
    HttpBody::size_hint(request.body()).exact().map(|bytes| bytes as usize)
}

/// Reads the body of a request.
async fn read(request: Request, most: usize, time: Duration) -> Result<Bytes, StatusCode> {
    if announced(&request).is_some_and(|bytes| bytes > most) {
        return Err(StatusCode::PAYLOAD_TOO_LARGE);
    }
    match timeout(time, Limited::new(request.into_body(), most).collect()).await {
        Err(_) => Err(StatusCode::REQUEST_TIMEOUT),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(StatusCode::PAYLOAD_TOO_LARGE),
        Ok(Err(_)) => Err(StatusCode::BAD_REQUEST),
        Ok(Ok(body)) => Ok(body.to_bytes()),
    }
}

async fn metrics(State(app): State<Arc<App>>) -> Response {
    let rpc = Arc::clone(&app.rpc);
    let text = move || metrics::text(&rpc.state.live, |method, params| rpc.ask(method, params));
    match app.rpc.threads.run(Lane::Quick, false, text).await {
        Ok((text, _)) => respond(200, Some(CONTENT_TYPE), text.into()),
        Err(why) => refusal(why).await,
    }
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
async fn rest(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Response {
    let uri = request.uri().clone();
    let path = uri.path().strip_prefix(REST).unwrap_or_default();
    let mut body = Bytes::new();
    if apus_query::reads_body(path) {
        body = match read(request, OPEN_BODY_BYTES_MAX, OPEN_BODY_TIME).await {
            Ok(body) => body,
            Err(status) => return status.into_response(),
        };
    }
    let _busy = client.connection.work();
    let stop = Arc::new(AtomicBool::new(false));
    let _leaves = RaiseOnDrop(Arc::clone(&stop));
    let path = path.to_string();
    let query = uri.query().map(str::to_string);
    let work = move |state: &super::state::ServerState, how: (&AtomicBool, &Waiting)| {
        apus_query::rest(&state.source, &path, query.as_deref(), &body, how)
    };
    let (answer, seat) = match app.rpc.run((Lane::Open, "rest"), &stop, false, work).await {
        Ok(answered) => answered,
        Err(why) => return refusal(why).await,
    };
    let Some(answer) = answer else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let caching = answer.caching();
    let RestAnswer { status, content_type, body, .. } = answer;
    let mut room = Room::default();
    if let Err(why) = app.open_answers.grow(&mut room, body.len()).await {
        return refusal(why).await;
    }
    drop(seat);
    let mut response = respond(status, Some(content_type), room.hold(body));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    response
}

/// Raises a flag when it is dropped.
struct RaiseOnDrop(Arc<AtomicBool>);

impl Drop for RaiseOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
