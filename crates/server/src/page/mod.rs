//! The web page at `/`: what a person wants to know of a run, at one glance.
//!
//! `gather` collects a `PageState` from everything that knows a part of it, `sections` makes HTML
//! of it, with `headline` and `picture`, and `document` the whole page. `events` sends the sections
//! that have changed. So the page is the same with and without JavaScript, and its script only puts
//! sections in place.

mod answers;
mod blocks;
mod columns;
mod document;
mod events;
mod gather;
mod headline;
mod picture;
mod sections;
mod state;
mod words;

#[cfg(test)]
mod fixtures;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use apus_node::view::View;
use axum::Router;
use axum::extract::State as Shared;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::get;
use tokio::sync::watch;

use super::live::Live;
use events::Page;
use gather::Gatherer;

/// Returns the routes of the page of a process: `/`, its files, and `/events`. `stop` is raised
/// when the work is asked to stop; once `stopped` is true, each stream of updates ends with a last
/// one.
pub(crate) fn routes(
    live: &Arc<Live>,
    view: &Arc<View>,
    stop: &Arc<AtomicBool>,
    stopped: watch::Receiver<bool>,
) -> Router {
    let gatherer = Gatherer::new(Arc::clone(live), Arc::clone(view), Arc::clone(stop));
    routes_of(Arc::new(Page::new(move || gatherer.state(), stopped)))
}

fn routes_of(page: Arc<Page>) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/events", get(async |Shared(page): Shared<Arc<Page>>| events::updates(&page)))
        .route(
            "/page.css",
            get(async |headers: HeaderMap| {
                answers::file(&headers, "text/css; charset=utf-8", include_str!("assets/page.css"))
            }),
        )
        .route(
            "/page.js",
            get(async |headers: HeaderMap| {
                let script = include_str!("assets/page.js");
                answers::file(&headers, "text/javascript; charset=utf-8", script)
            }),
        )
        .route(
            "/page.svg",
            get(async |headers: HeaderMap| {
                answers::file(&headers, "image/svg+xml", include_str!("assets/page.svg"))
            }),
        )
        .with_state(page)
}

async fn index(Shared(page): Shared<Arc<Page>>) -> Result<Response, StatusCode> {
    let sections = events::sections(&page, false).await?;
    Ok(answers::html(document::document(&sections)))
}
