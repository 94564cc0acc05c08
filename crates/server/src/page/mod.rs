//! The web page.

use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use tokio::sync::watch;

use super::live::Live;

/// Returns the routes of the page, which shows `live` until `stopped` is true.
pub(crate) fn routes(_live: &Arc<Live>, _stopped: watch::Receiver<bool>) -> Router {
    Router::new().route("/", get(async || "Apus\n"))
}
