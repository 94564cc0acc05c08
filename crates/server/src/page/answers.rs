//! Headers that every answer has, and the files that do not change.

use std::hash::{DefaultHasher, Hash, Hasher};

use axum::http::StatusCode;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue,
    IF_NONE_MATCH, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::response::{Html, IntoResponse, Response};

/// What a browser may load for the page: files and events of this server alone, nothing inline.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// Adds the headers that keep other sites and injected text away from the page.
pub fn protect(headers: &mut HeaderMap) {
    let all: [(HeaderName, &'static str); 6] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in all {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// Answers with a page.
pub fn html(text: String) -> Response {
    let mut response = Html(text).into_response();
    protect(response.headers_mut());
    response
}

/// Answers with a file of the program, or says that the browser's copy is the same.
pub fn file(request: &HeaderMap, content_type: &'static str, text: &'static str) -> Response {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let tag = format!("\"{:016x}\"", hasher.finish());
    let is_same =
        request.get(IF_NONE_MATCH).is_some_and(|given| given.as_bytes() == tag.as_bytes());
    let mut response =
        if is_same { StatusCode::NOT_MODIFIED.into_response() } else { text.into_response() };
    let headers = response.headers_mut();
    protect(headers);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(ETAG, HeaderValue::try_from(tag).expect("hexadecimal"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_is_the_same_is_not_sent_again() {
        let mut request = HeaderMap::new();
        let first = file(&request, "text/css", "a {}");
        assert_eq!(first.status(), StatusCode::OK);
        request.insert(IF_NONE_MATCH, first.headers()[ETAG].clone());
        assert_eq!(file(&request, "text/css", "a {}").status(), StatusCode::NOT_MODIFIED);
        assert_eq!(file(&request, "text/css", "b {}").status(), StatusCode::OK);
    }
}
