//! The interface of the server. `ROUTES` is all of it; openapi.json describes the same.

mod events;
mod people;
mod problem;
mod sites;
mod statics;

use axum::Router;
use axum::body::Bytes;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::{get, post};
use norns_hive::ProgramName;
use serde::de::DeserializeOwned;

use crate::hive::Hive;
use crate::metrics::Refusal;
pub use problem::Problem;

pub fn router(hive: &'static Hive) -> Router {
    Router::new()
        .route("/", get(statics::page))
        .route("/page.js", get(statics::script))
        .route("/page.css", get(statics::style))
        .route("/openapi.json", get(statics::openapi))
        .route("/healthz", get(statics::health))
        .route("/metrics", get(people::metrics))
        .route("/v1/events", get(events::events))
        .route("/v1/races", get(people::all_races))
        .route("/v1/programs", get(people::programs))
        .route("/v1/programs/{program}", get(people::program))
        .route("/v1/programs/{program}/builds", post(people::add_build))
        .route("/v1/programs/{program}/token", post(people::new_token))
        .route("/v1/programs/{program}/races", get(people::races))
        .route("/v1/programs/{program}/races/{id}", get(people::race))
        .route("/v1/programs/{program}/task", post(sites::task))
        .route("/v1/programs/{program}/reports", post(sites::reports))
        .fallback(async || Problem::not_found("there is no such address"))
        .layer(from_fn(secured))
        .with_state(hive)
}

/// Headers of every answer: browsers run only what the server itself sends, and keep nothing.
async fn secured(request: Request, next: Next) -> Response {
    const HEADERS: [(HeaderName, &str); 4] = [
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    let mut response = next.run(request).await;
    for (name, value) in HEADERS {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The token of a request.
fn token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    value.strip_prefix("Bearer ")
}

/// The body of a request, which must be JSON and no larger than the limit.
async fn message<M: DeserializeOwned>(
    hive: &Hive,
    body: axum::body::Body,
    limit: usize,
) -> Result<M, Problem> {
    let Ok(bytes): Result<Bytes, _> = axum::body::to_bytes(body, limit).await else {
        hive.metrics.refuse(Refusal::Oversized, 1);
        return Err(Problem::too_large(limit));
    };
    serde_json::from_slice(&bytes).map_err(|error| {
        hive.metrics.refuse(Refusal::Malformed, 1);
        Problem::malformed(&error)
    })
}

fn program_name(name: String) -> Result<ProgramName, Problem> {
    ProgramName::new(name).map_err(|error| Problem::malformed(&error))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    #[test]
    fn openapi_describes_every_route_and_no_other() {
        let described: Value = serde_json::from_str(super::statics::OPENAPI).expect("it is JSON");
        let paths = described["paths"].as_object().expect("it has paths");
        let mut described: Vec<String> = paths
            .iter()
            .flat_map(|(path, methods)| {
                let methods = methods.as_object().into_iter().flatten();
                let methods = methods.filter(|(method, _)| *method != "parameters");
                methods.map(move |(method, _)| format!("{method} {path}"))
            })
            .collect();
        let source = include_str!("mod.rs");
        let routes = source
            .lines()
            .filter_map(|line| line.trim().strip_prefix(".route(\""));
        let mut routed: Vec<String> = routes
            .map(|route| {
                let (path, rest) = route.split_once("\", ").expect("a path and a method");
                let method = rest.split('(').next().expect("a method");
                format!("{method} {path}")
            })
            .collect();
        described.sort();
        routed.sort();
        assert!(routed.len() > 10);
        assert_eq!(described, routed);
    }
}
