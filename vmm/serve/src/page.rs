//! Texts that are not JSON: metrics, the document of the API, and the page that shows the node.
//!
//! The page is served on the loopback interface, where any program of this host and any page in a browser may send
//! requests. So all is for reading, and a request must name the loopback interface as its host: a page of a foreign
//! name that resolves to it (DNS rebinding) reads nothing.

use crate::answer::Refused;
use crate::crew::Crew;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::{Router, routing};
use stile_api::{Problem, Reason};

/// All figures in the format of OpenMetrics 1.0.
pub(crate) async fn metrics(State(crew): State<Crew>) -> Result<Response, Refused> {
    let text = crew.look(|node| Ok(stile_metrics::openmetrics::page(&node.counters()))).await?;
    let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

/// The OpenAPI document.
pub(crate) async fn openapi() -> Response {
    axum::Json(crate::routes::document()).into_response()
}

/// The API beside the page.
pub(crate) fn beside(api: Router) -> Router {
    api.merge(Router::new().route("/", routing::get(page))).layer(middleware::from_fn(only_local))
}

async fn page() -> Response {
    let headers = [
        (header::CONTENT_SECURITY_POLICY, stile_page::CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, Html(stile_page::PAGE)).into_response()
}

async fn only_local(request: Request, next: Next) -> Response {
    if names_loopback(request.headers()) {
        return next.run(request).await;
    }
    let problem = Problem::new(Reason::Forbidden, "the request names another host than this one");
    Refused(problem.remedy("use http://localhost or http://127.0.0.1")).into_response()
}

fn names_loopback(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host
        .rsplit_once(':')
        .filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()))
        .map_or(host, |(name, _)| name);
    ["localhost", "127.0.0.1", "[::1]"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_that_name_the_loopback_interface_are_answered() {
        let named = |host: &'static str| {
            names_loopback(&HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))]))
        };
        assert!(["localhost", "localhost:8080", "127.0.0.1:1", "[::1]:80", "[::1]"].into_iter().all(named));
        assert!(
            !["example.org", "example.org:80", "localhost.example.org", "127.0.0.1.example.org:80", ""]
                .into_iter()
                .any(named)
        );
        assert!(!names_loopback(&HeaderMap::new()));
    }
}
